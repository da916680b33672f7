"""A trace begins and ends while a daemon runs; of a trace before nothing is left."""
import os

import pytest

from ascpipe.config import load_settings
from ascpipe.control import messages
from ascpipe.daemon.tracing import Tracing
from ascpipe.daemon.worker_identity import DISK, KEY, TABLE, Worker
from ascpipe.errors import WrongStateError
from ascpipe.names import RunDir

WORKER = Worker(TABLE, 1)
RANKS = messages.Start((messages.Stream(0, 2, (0,), 2),), (), b"")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    os.makedirs(str(tmp_path / "ascpipe" / "unit"))
    return RunDir("unit")


def tracing(run, **settings):
    return Tracing(run, load_settings(settings, {}))


def test_a_daemon_without_the_setting_begins_when_it_is_told_and_ends_when_it_is_told(run):
    trace = tracing(run)
    assert (trace.told(), trace.body_of(WORKER)) == ({"spans": 0, "since_ns": 0, "until_ns": 0}, None)
    trace.start(50)
    assert trace.body_of(WORKER) == {"path": run.worker_spans("table-1"), "count": 50}
    assert trace.told()["since_ns"] > 0
    trace.stop()
    assert trace.body_of(WORKER) is None
    assert 0 < trace.told()["since_ns"] <= trace.told()["until_ns"]
    trace.start(60)
    assert (trace.told()["spans"], trace.told()["until_ns"]) == (60, 0)


def test_a_daemon_with_the_setting_has_begun_and_can_be_told_to_end(run):
    trace = tracing(run, timeline_spans=7)
    assert trace.body_of(Worker(KEY, 0))["count"] == 7
    trace.stop()
    assert trace.body_of(Worker(KEY, 0)) is None


def test_the_disk_worker_records_nothing(run):
    assert tracing(run, timeline_spans=7).body_of(Worker(DISK, 0)) is None


def test_a_second_start_or_stop_is_refused(run):
    trace = tracing(run)
    with pytest.raises(WrongStateError, match="E219: The daemon cannot stop the trace while it is not recording"):
        trace.stop()
    trace.start(50)
    with pytest.raises(WrongStateError, match="recording: it keeps 50 spans of each worker since"):
        trace.start(60)
    assert trace.told()["spans"] == 50


def test_what_was_recorded_stays_until_the_next_start(run):
    path = run.worker_spans("table-1")
    trace = tracing(run)
    trace.start(50)
    open(path, "w").close()
    trace.stop()
    assert os.path.exists(path)
    trace.start(50)
    assert not os.path.exists(path)


def test_a_trainer_is_served_without_room_for_its_spans_unless_they_were_asked_for(run):
    os.rmdir(run.path)
    with tracing(run).trainer_spans(RANKS, 1) as found:
        assert found == [(-1, 0), (-1, 0)]
    with pytest.raises(OSError), tracing(run, timeline_spans=7).trainer_spans(RANKS, 1):
        pass


def test_exchanges_of_one_rank_have_no_file(run):
    one_rank = messages.Start((messages.Stream(0, 2, (0,), 1),), (), b"")
    with tracing(run, timeline_spans=7).trainer_spans(one_rank, 1) as (exchanges, reading):
        assert exchanges == (-1, 0)
        assert os.fstat(reading[0]).st_size == reading[1] > 0
    assert os.listdir(run.path) == ["reading.spans"]
