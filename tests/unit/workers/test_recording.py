"""What a step did is read from the state words before and after it."""
import time

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import DEDUPED, PLANNED, RETIRED, SUBMITTED, TOUCHED, TRAIN
from ascpipe.shm import spans
from ascpipe.workers.recording import Progress, recorded
from ascpipe.workers.runner import StreamView, Worker, _Steps
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


def test_a_step_that_only_takes_a_batch_back_is_not_kept(tmp_path):
    ring, stream = ring_of(1, 2)
    store(ring, 0, PLANNED, PLANNED)
    path = str(tmp_path / "table-0.spans")

    def step():
        store(ring, 0, PLANNED, DEDUPED)  # as a revoked plan
        return 1

    assert recorded(step, spans.SpanRing(path, 8, "table", 0), "table", [stream])() == 1
    assert spans.read(path).spans == []


def test_a_wait_for_rows_from_disk_is_kept_when_the_plan_is_made_or_another_one_waits(tmp_path):
    ring, stream = ring_of(1, 3)
    disk_table = np.zeros(1, structs.DISK_TABLE)[0]
    path = str(tmp_path / "table-0.spans")
    waiting = [1, 1, 0, 3, 2, 0]  # 1 + number of the frame, step after step

    def step():
        disk_table["waiting"] = waiting.pop(0)
        return 0

    recorded_step = recorded(step, spans.SpanRing(path, 8, "table", 0), "table", [stream], lambda table: disk_table)
    began = time.time_ns()
    while waiting:
        assert recorded_step() == 0
    kept = spans.read(path).spans
    tickets = [int(ticket) & (1 << 48) - 1 for ticket in ring.ring.frames["ticket"][[0, 2, 1]]]
    assert [span.done for span in kept] == [[(spans.AWAIT_ROWS, 1, ticket)] for ticket in tickets]
    assert all(began <= span.start_ns <= span.start_ns + span.duration_ns <= time.time_ns() for span in kept)


class Nothing:
    spans, streams = None, []

    def disk_table(self, worker, number):
        return None


def test_recording_begins_and_ends_between_two_steps_and_a_file_that_cannot_be_made_stops_no_worker(tmp_path, capsys):
    ring, stream = ring_of(1, 3)
    todo = [DEDUPED, DEDUPED, DEDUPED]
    done = []

    def step():
        done.append(todo.pop(0))
        store(ring, 0, *done)
        return 1

    attachment = Nothing()
    attachment.streams = [stream]
    path = str(tmp_path / "key-0.spans")
    steps = _Steps(step, attachment, Worker(0, 1), structs.BELL_KEY_WORKERS)
    steps.step()
    steps.record({"path": path, "count": 4})
    steps.step()
    steps.record(None)
    steps.step()
    assert [span.done for span in spans.read(path).spans] == [[("deduplicate", 1, 2)]]
    steps.record({"path": str(tmp_path / "missing" / "key-0.spans"), "count": 4})
    assert steps.step is step
    assert "no spans are recorded" in capsys.readouterr().err
    steps.record({"path": path, "count": 4})
    assert steps.step is not step
    disk = _Steps(step, attachment, Worker(0, 1), structs.BELL_DISK_WORKER)
    disk.record({"path": path, "count": 4})
    assert disk.step is step
