"""The daemon lives on whatever a worker that has gone mad has written into the memory that they share."""
import numpy as np
import pytest

from ascpipe.config import load_settings
from ascpipe.control import codec, messages
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.daemon.statistics import describe_memory
from ascpipe.daemon.worker_identity import DISK_WORKER, KEY, TABLE, Worker
from ascpipe.errors import DaemonStoppedError, KeyWorkerDiedError, number_of
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import ring_shape
from ascpipe.layout.words import DEDUPED, SUBMITTED
from ascpipe.shm.memory import Places

WORKERS = [Worker(KEY, 0), Worker(TABLE, 0), DISK_WORKER]
LIMITS = [0, 1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.fixture
def memory(tmp_path):
    start = messages.Start((messages.Stream(0, 0, (0, 1)), messages.Stream(1, 1, (1,))), (
        messages.Table(0, "user", 4, 100),
        messages.Table(1, "item", 4, 10, 40, 8, disk_rows=100, directories=(str(tmp_path),))),
        b"x" * messages.TOKEN_BYTES)
    made = SessionMemory(start, load_settings({}, {"ASCPIPE_RING_BYTES": str(1 << 16)}), 1, Places(), private=True)
    yield made
    made.close()


def damage(memory, draw):
    """Random words, often at a limit, in what stands before entries and arenas."""
    for segment in (memory.session, *memory.rings, *memory.tables):
        words = segment.array[:min(segment.size, 1 << 14)].view(np.uint64)
        some = draw.choice(len(words), len(words) // 2, replace=False)
        words[some] = draw.randint(0, 2**63, len(some), dtype=np.uint64)
        limits = draw.choice(some, len(some) // 2, replace=False)
        words[limits] = draw.choice(np.array(LIMITS, np.uint64), len(limits))


@pytest.mark.parametrize("number", range(20))
def test_no_word_in_shared_memory_is_an_error_of_what_the_daemon_does_there(memory, seed, number):
    damage(memory, np.random.RandomState((seed + number) % 2**32))
    codec.pack(describe_memory(memory, WORKERS))
    memory.batches_of(3)
    memory.clear_claims(3)
    memory.trainer_waits()


def test_the_claim_of_a_frame_that_one_of_two_tables_has_deduped_is_cleared(memory):
    shape = ring_shape(2, 0)
    ring = memory.rings[0]
    frames = ring.view(structs.FRAME, shape.frames_offset, structs.MAX_FRAMES)
    words = ring.view(structs.RING_TABLE, shape.tables_offset, 2)["words"]
    words[0, 5], words[1, 5] = DEDUPED, SUBMITTED
    words[:, 6] = DEDUPED
    frames["claim"][5:7] = 7
    memory.clear_claims(7)
    assert frames["claim"][5:7].tolist() == [0, 7]


def test_the_first_failure_of_a_session_stays(memory):
    header = memory.session.view(structs.SESSION)[0]
    for error in (KeyWorkerDiedError("first", 1, "a cause"), DaemonStoppedError("second")):
        memory.fail(error, "")
        assert header["failed"] == number_of(KeyWorkerDiedError.code)
        assert b"first" in bytes(header["failure_text"])


def test_claims_are_cleared_wherever_the_header_of_the_ring_says_that_frames_lie(memory):
    shape = ring_shape(2, 0)
    ring = memory.rings[0]
    frames = ring.view(structs.FRAME, shape.frames_offset, structs.MAX_FRAMES)
    ring.view(structs.RING_TABLE, shape.tables_offset, 2)["words"][1, 5] = SUBMITTED
    frames["claim"][5], frames["ticket"][5] = 7, 45
    for field in ("frames_offset", "tables_offset", "table_count", "stream"):
        ring.view(structs.RING)[0][field] = -1
    assert memory.batches_of(7) == ["batch 45 of stream 0"]
    memory.clear_claims(7)
    assert frames["claim"][5] == 0
