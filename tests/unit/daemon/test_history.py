"""Records of runs: what a daemon writes is what a report reads, files are bounded, a killed daemon loses one sample."""
import json
import os
import threading
import time

import pytest

from ascpipe.config import load_settings
from ascpipe.control import run_record, saves
from ascpipe.daemon import history
from ascpipe.daemon.events import CloseSession
from ascpipe.daemon.run_directory import OwnedRunDir
from ascpipe.daemon.worker_identity import DISK, KEY, Worker
from ascpipe.errors import CrashLoopError, RecordError
from ascpipe.names import run_dir
from ascpipe.report import figures
from tests.support.waiting import wait_until
from tests.unit.cli.test_rates import look

TABLE = dict.fromkeys(run_record.TABLE_FIELDS, 0)


def status(up, run=7, failure=None, start=0):
    """An answer to status after ``up`` seconds, with ten steps per second since ``start``."""
    steps = 10 * max(0, up - start)
    told = look(float(up), trained=steps, ids=10 * steps, hits=3 * up, misses=up, rows=up)
    return {**told, "tables": [{**TABLE, **table} for table in told["tables"]], "failure": failure,
            "trainer": {"pid": os.getpid(), "run": run, "since": "noon"}}


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(history, "MOST_WAITING", 1000)  # tests take samples as fast as they can


def recorded(seconds, run=7, failure=None, end=CloseSession(), start=0, **settings):  # noqa: B008  (immutable)
    now = [0]
    record = history.History(run_dir("unit"), load_settings(settings, {}), lambda: status(now[0], run, failure, start))
    for second in range(seconds):
        now[0] = second
        record.look(float(second))
    if end:
        record.end(end)
        return run_record.read("unit-{}".format(run))
    wait_until(lambda: written(run) == seconds, what="all samples in the file")
    found = run_record.read("unit-{}".format(run))
    record.end(CloseSession())
    return found


def written(run):
    """Number of samples in the file of a run."""
    try:
        return len(run_record.read("unit-{}".format(run)).samples)
    except (OSError, ValueError):  # the thread has not created the file yet
        return 0


def test_samples_come_back_as_they_were():
    record = recorded(5, end=None)
    assert [sample["uptime_s"] for sample in record.samples] == [0, 1, 2, 3, 4]
    told = record.samples[3]
    expected = status(3)
    for part in ("waits", "rings", "exchanges", "reading", "failure"):
        for seen, given in zip(told[part] or [], expected[part] or []):
            assert seen == {name: given[name] for name in seen}
    assert told["tables"][0]["ids"] == 300 and told["trainer"] == {"run": 7}
    assert record.head["program"] and record.head["settings"]["workers"] == 1


@pytest.mark.parametrize("start, speed", [(15, 10.0), (18, round(10 / 19, 2)), (30, 0.0)])
def test_the_speed_of_a_run_is_measured_from_its_first_trained_step(start, speed):
    seen = figures.figures_of(recorded(20, start=start))["run"]
    assert seen["steps per second"] == speed and seen["seconds"] == 19.0


def test_figures_of_a_record_are_the_rates_of_the_run():
    seen = figures.figures_of(recorded(20))
    assert seen["run"]["steps per second"] == 10.0 and seen["run"]["ids per second"] == 100
    assert seen["steps"][4][1] == 10.0 and seen["tables"][0]["device_hit_rate"] == 0.75
    assert sum(seen["bottlenecks"].values()) == pytest.approx(1.0)
    assert seen["tables"][0]["growth"][-1][1] == 19
    json.dumps(seen)


def test_shares_of_the_time_begin_at_the_first_trained_batch():
    record = recorded(20)
    start = [{**sample, "rings": [{**ring, "trained": 0, "depth": 0} for ring in sample["rings"]],
              "waits": [{**wait, "asleep": True} for wait in sample["waits"]]} for sample in record.samples]
    seen = figures.figures_of(record._replace(samples=start * 3 + record.samples[1:]))
    assert seen["bottlenecks"] == figures.figures_of(record)["bottlenecks"] and "input" not in seen["bottlenecks"]
    assert seen["awake"] == figures.figures_of(record)["awake"]
    untrained = figures.figures_of(record._replace(samples=start))
    assert (untrained["bottlenecks"], untrained["awake"]) == ({}, {})


def test_a_row_of_a_table_includes_the_slots_of_its_optimizer():
    record = recorded(3)
    for sample in record.samples:
        sample["tables"][0].update(dim=16, row_floats=32)
    assert figures.figures_of(record)["tables"][0]["row_bytes"] == 128
    del record.samples[-1]["tables"][0]["row_floats"]  # a record of an earlier version
    assert figures.figures_of(record)["tables"][0]["row_bytes"] == 64


def test_a_full_file_loses_every_second_sample_and_has_samples_of_the_whole_run(monkeypatch):
    monkeypatch.setattr(history, "MOST", 16)
    record = recorded(100)
    times = [sample["uptime_s"] for sample in record.samples]
    assert len(times) <= 17 and times[0] == 0 and times[-1] == 99
    gaps = [later - earlier for earlier, later in zip(times[:-2], times[1:-1])]
    assert max(gaps) <= 2 * min(gaps)


def test_each_checkpoint_is_once_in_the_record_also_if_samples_are_removed(monkeypatch):
    monkeypatch.setattr(history, "MOST", 16)
    run = run_dir("unit")
    os.makedirs(run.path)
    now = [0]
    record = history.History(run, load_settings({}, {}), lambda: status(now[0]))
    for second in range(100):
        now[0] = second
        if second % 3 == 0:
            saves.note(run, saves.Save("/model/base-{}".format(second), 1000.0 + second, 0.5))
        record.look(float(second))
    record.end(CloseSession())
    found = [save.prefix for sample in run_record.read("unit-7").samples for save in sample["saves"]]
    assert found == ["/model/base-{}".format(second) for second in range(0, 100, 3)]


def test_a_record_keeps_the_newest_checkpoints(monkeypatch):
    monkeypatch.setattr(run_record, "MOST_SAVES", 3)
    lines = [run_record.packed(status(at), 0.0, [saves.Save(str(at), at, 0.1)]) for at in range(6)]
    found = [[save[0] for save in json.loads(line).get("saves", [])] for line in run_record.thinned(lines)]
    assert found == [[], [], ["3", "4", "5"]]


def test_the_last_runs_are_kept():
    for run in range(1, 6):
        recorded(3, run, recorded_runs=3)
        path = os.path.join(run_record.base_dir(), "unit-{}.jsonl".format(run))
        os.utime(path, (time.time() + run, time.time() + run))
    assert run_record.names() == ["unit-5", "unit-4", "unit-3"]


@pytest.mark.parametrize("known, most, running, expected", [
    (["a-1", "b-2", "c-3"], 2, [], ["c-3"]), (["a-1", "b-2", "c-3"], 2, ["c"], []),
    (["a-9", "b-2", "a-1", "a-0"], 1, ["a", "b"], ["a-1", "a-0"]), (["a-1"], 5, [], []),
    (["rank-0-7", "rank-1-8", "rank-0-3"], 0, ["rank-0", "rank-1"], ["rank-0-3"])])
def test_old_records_are_removed_but_not_those_of_running_daemons(known, most, running, expected):
    assert run_record.superseded(known, most, running) == expected


def test_a_record_that_another_daemon_removes_at_the_same_time_is_no_error(monkeypatch):
    monkeypatch.setattr(run_record, "superseded", lambda known, most, running: ["unit-5"])
    assert len(recorded(3).samples) == 4


def test_a_killed_daemon_leaves_all_samples_but_the_last_one():
    recorded(5)  # five samples and the last one
    path = os.path.join(run_record.base_dir(), "unit-7.jsonl")
    os.truncate(path, os.path.getsize(path) - 40)
    assert len(run_record.read("unit-7").samples) == 5


def failure_of(record, **options):
    return figures.figures_of(record, **options)["failure"]


def test_the_failure_and_the_restarts_of_a_session_are_those_of_its_end():
    error = CrashLoopError("key worker 0", 5, 60.0, "pid 7: killed by SIGKILL")
    seen = figures.figures_of(recorded(4, end=CloseSession(error, True, ((Worker(KEY, 0), 5), (Worker(DISK, 0), 2)))))
    assert seen["failure"] == str(error) and seen["restarts"] == 7
    assert failure_of(recorded(4, failure="E122: torn", end=None)) == "E122: torn"


def test_a_trainer_that_died_without_a_message_is_a_failure():
    assert failure_of(recorded(4, end=CloseSession(trainer_died=True))) == (
        "The trainer (pid {}) died without a message.".format(os.getpid()))
    assert failure_of(recorded(4, run=8)) is None


def test_a_record_without_an_end_is_a_failure_unless_its_daemon_runs():
    record = recorded(4, end=None)
    assert "the daemon (pid {}) was killed".format(os.getpid()) in failure_of(record)
    assert failure_of(record, running=True) is None
    del record.head["daemon_pid"]  # a record of an earlier version
    assert failure_of(record) is None


def test_a_run_continues_while_the_daemon_of_its_record_holds_the_lock():
    record = recorded(4, end=None)
    assert not figures.is_running(record)
    owned = OwnedRunDir("unit")
    try:
        assert figures.is_running(record) and not figures.is_running(recorded(4, run=8))
        record.head["daemon_pid"] += 1  # an earlier daemon of this name
        assert not figures.is_running(record)
    finally:
        owned.leave(keep_log=False)


def test_a_state_directory_that_cannot_be_written_does_not_stop_the_daemon(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    record = history.History(run_dir("unit"), load_settings({}, {}), lambda: status(1))
    for second in range(5):
        record.look(float(second))
    record.end(CloseSession())
    assert len([one for one in caplog.records if "not recorded" in one.getMessage()]) <= 1


def test_nothing_is_recorded_if_no_run_is_to_be_kept():
    with pytest.raises(OSError):
        recorded(3, recorded_runs=0)
    assert not os.path.exists(run_record.base_dir())


def test_a_disk_that_does_not_respond_delays_no_sample_and_the_end_only_a_little(monkeypatch, caplog):
    monkeypatch.setattr(history, "MOST_WAITING", 4)
    os.makedirs(run_record.base_dir(), mode=0o700)
    os.chmod(os.path.dirname(run_record.base_dir()), 0o700)
    path = os.path.join(run_record.base_dir(), "unit-7.jsonl")
    os.mkfifo(path)  # opening it for writing waits for a reader
    record = history.History(run_dir("unit"), load_settings({}, {}), lambda: status(1))
    taken = []

    def take():
        for second in range(100):
            record.look(float(second))
        taken.append("samples")
        record.end(CloseSession())
        taken.append("end")

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    wait_until(lambda: "samples" in taken, what="samples of a disk that does not respond")
    wait_until(lambda: "end" in taken, what="the end of the run")
    assert len([one for one in caplog.records if "does not respond" in one.getMessage()]) == 1
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # the thread of the record ends
    wait_until(lambda: "ascpipe-run-record" not in [one.name for one in threading.enumerate()], what="the thread")


@pytest.mark.parametrize("text, words", [
    ("", "damaged"), ("{}\n", "damaged"), ('{"format": 99}\n', "format 99"), ("nonsense\n", "Expecting value"),
    ('{"format": 1, "run": 1}\n', "0 samples"), ('{"format": 1, "run": 1}\n{}\n{}\n', "damaged")])
def test_a_damaged_record_is_e234(text, words):
    os.makedirs(run_record.base_dir())
    with open(os.path.join(run_record.base_dir(), "unit-1.jsonl"), "w") as file:
        file.write(text)
    with pytest.raises(RecordError, match="E234") as caught:
        figures.record_of("unit-1", last=False)
    assert words in str(caught.value)


def test_a_record_that_there_is_not_is_e234_and_names_the_others():
    recorded(3)
    with pytest.raises(RecordError, match="unit-7"):
        figures.record_of("other", last=False)
    assert figures.record_of(None, last=True).name == "unit-7"
