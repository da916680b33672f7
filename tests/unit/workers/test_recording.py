"""What a step did is read from the state words before and after it."""
import time

from ascpipe.layout.words import DEDUPED, PLANNED, RETIRED, SUBMITTED, TOUCHED, TRAIN
from ascpipe.shm import spans
from ascpipe.workers.recording import Progress, recorded
from ascpipe.workers.runner import StreamView
from tests.support.sim_ring import SimRing


def ring_of(tables, batches):
    ring = SimRing(tables, 8, 1 << 16)
    for number in range(batches):
        assert ring.submit(*[[number]] * tables)
    return ring, StreamView(ring.ring, TRAIN, list(range(tables)))


def store(ring, table, *words):
    for number, word in enumerate(words):
        ring.ring.store_word(number, table, word)


def test_progress_is_the_newest_frame_that_any_table_has_brought_so_far():
    ring, stream = ring_of(2, 4)
    assert Progress(stream, "key").newest() == [-1]
    store(ring, 0, RETIRED, PLANNED, TOUCHED, SUBMITTED)
    store(ring, 1, DEDUPED, DEDUPED, DEDUPED, DEDUPED)
    assert Progress(stream, "table").newest() == [2, 1, 0]
    assert Progress(stream, "key").newest() == [3]
    assert Progress(stream, "key").batches([3]) == [int(ring.ring.frames["ticket"][3]) & (1 << 48) - 1]


def test_a_step_that_moved_batches_on_is_kept_with_its_time_and_another_one_is_not(tmp_path):
    ring, stream = ring_of(1, 3)
    todo = [lambda: store(ring, 0, DEDUPED, DEDUPED), lambda: None]
    path = str(tmp_path / "key-0.spans")

    def step():
        act = todo.pop(0)
        act()
        return 1 if todo else 0

    recorded_step = recorded(step, spans.SpanRing(path, 8, "key", 0), "key", [stream])
    began = time.time_ns()
    assert [recorded_step(), recorded_step()] == [1, 0]
    span, = spans.read(path).spans
    assert began <= span.start_ns <= span.start_ns + span.duration_ns <= time.time_ns()
    assert span.done == [("deduplicate", 2, int(ring.ring.frames["ticket"][1]) & (1 << 48) - 1)]
