"""Trainer, supervisor or workers die: what happens, and what is left; with stand-in workers."""
import os
import signal

import pytest

from ascpipe import names
from ascpipe.control import fdsocket, trainer_link
from ascpipe.errors import SupervisorGoneError
from ascpipe.layout import structs
from ascpipe.layout.ticket import SEQUENCE_BITS
from ascpipe.shm import segment
from tests.support.daemons import LAYOUT, DaemonProcess, is_alive, small_session, start_trainer, use_standins
from tests.support.waiting import wait_until

LEFT_WITHIN_S = 2.0


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


@pytest.fixture
def daemon():
    process = DaemonProcess("unit")
    yield process
    process.end()


class Session:
    """A link of this process to a daemon, started."""

    def __init__(self, name, *table_names):
        self.link = trainer_link.connect(name, layout=LAYOUT)
        self.pieces = self.link.start(*small_session(*table_names))
        self.memory = segment.map(*self.pieces.session)

    @property
    def failed(self):
        return int(self.memory[:structs.SESSION.itemsize].view(structs.SESSION)[0]["failed"])

    @property
    def failure_text(self):
        header = self.memory[:structs.SESSION.itemsize].view(structs.SESSION)[0]
        text = bytes(header["failure_text"])
        assert len(text) == header["failure_bytes"]
        return text.decode()


@pytest.fixture
def start():
    sessions = []

    def open_session(name, *table_names):
        sessions.append(Session(name, *table_names))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.link.close()
        session.memory = None


@pytest.mark.parametrize("options", [(), ("fork",)], ids=["alone", "with a sleeping child that holds the sockets"])
def test_a_killed_trainer_takes_its_private_daemon_and_everything_else_with_it(options):
    trainer, told = start_trainer("-", *options)
    run = names.run_dir(told["name"])
    workers = [worker["pid"] for worker in _status(run)["workers"]]
    try:
        trainer.kill()
        trainer.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in [told["daemon"], *workers]), LEFT_WITHIN_S)
        wait_until(lambda: not os.path.exists(run.path), LEFT_WITHIN_S)
        if told["child"]:
            assert is_alive(told["child"]), "the child should have outlived it, or nothing was tried"
            assert _shared_memory_of(told["child"]) == []
    finally:
        if told["child"]:
            os.kill(told["child"], signal.SIGKILL)


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.long), ("fork",)],
                         ids=["alone", "with a sleeping child that holds the sockets"])
def test_a_killed_trainer_leaves_a_named_daemon_free_for_the_next(daemon, start, options):
    trainer, told = start_trainer("unit", *options)
    workers = {worker["pid"] for worker in daemon.wait_attached().values()}
    try:
        trainer.kill()
        trainer.wait()
        wait_until(lambda: daemon.status()["state"] == "idle", LEFT_WITHIN_S)
        assert not any(is_alive(pid) for pid in workers)
        start("unit")
        assert not workers & {worker["pid"] for worker in daemon.wait_attached().values()}
    finally:
        if told["child"]:
            os.kill(told["child"], signal.SIGKILL)


def test_a_killed_supervisor_takes_stopped_workers_with_it_and_the_trainer_sees_its_lifeline_end(daemon, start):
    session = start("unit")
    workers = [worker["pid"] for worker in daemon.wait_attached().values()]
    os.kill(workers[0], signal.SIGSTOP)
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in workers), LEFT_WITHIN_S)
    assert fdsocket.is_closed(session.link._sock)


def test_what_a_killed_daemon_left_is_swept_by_any_other_but_not_files_of_somebody_else(daemon):
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    assert os.path.exists(daemon.run.control) and os.path.exists(daemon.run.lifeline)
    notes = os.path.join(daemon.run.path, "notes.txt")
    with open(notes, "w") as file:
        file.write("precious")
    unfinished = os.path.join(segment.SHM_DIR, "ascpipe." + "0a" * 16)
    with open(unfinished, "w"):
        pass
    other = DaemonProcess("other")
    try:
        assert not os.path.exists(unfinished)
        assert [name for name in os.listdir(daemon.run.path) if not name.endswith(".log")] == ["notes.txt"]
        assert "dead daemon 'unit'" in other.log()
    finally:
        other.end()
    with open(notes) as file:
        assert file.read() == "precious"
    os.unlink(notes)


def test_a_killed_daemon_is_followed_by_one_of_its_name_and_a_stale_pid_is_not_signalled(daemon):
    link = trainer_link.connect("unit", layout=LAYOUT)
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    with pytest.raises(SupervisorGoneError, match="E110.*pid {}".format(daemon.pid)):
        link.start(*small_session())
    link.close()
    with open(daemon.run.owner, "w") as file:
        file.write('{{"pid": {}, "uid": 0}}'.format(os.getpid()))
    after = DaemonProcess("unit")
    log = after.log()
    after.end()  # and this process, the innocent one, is still here
    assert "the previous daemon (pid {}) did not end by itself".format(os.getpid()) in log


def test_a_regular_file_where_the_socket_should_be_is_refused_and_survives():
    names.make_private_dir(names.base_dir())
    run = names.run_dir("unit")
    names.make_private_dir(run.path)
    with open(run.control, "w") as file:
        file.write("precious")
    with pytest.raises(Exception, match="E214.*control.sock.*not a socket"):
        DaemonProcess("unit")
    with open(run.control) as file:
        assert file.read() == "precious"
    for name in os.listdir(run.path):
        os.unlink(os.path.join(run.path, name))
    os.rmdir(run.path)


def test_a_killed_key_worker_is_replaced_and_its_claims_are_cleared(daemon, start):
    session = start("unit")
    worker = daemon.wait_attached()["key", 0]
    ring = segment.map(*session.pieces.streams[0])
    header = ring[:structs.RING.itemsize].view(structs.RING)[0]
    offset = int(header["frames_offset"])
    frames = ring[offset:offset + structs.MAX_FRAMES * structs.FRAME.itemsize].view(structs.FRAME)
    frames["claim"][3], frames["claim"][5] = worker["generation"], worker["generation"] + 1000
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: frames["claim"][3] == 0, LEFT_WITHIN_S)
    assert frames["claim"][5] == worker["generation"] + 1000, "the claim of another worker"
    wait_until(lambda: daemon.workers("key")[0]["restarts"] == 1)
    replaced = daemon.wait_attached()["key", 0]
    assert replaced["pid"] != worker["pid"] and replaced["generation"] > worker["generation"]
    assert (session.failed, daemon.status()["state"]) == (0, "serving")


def test_a_killed_table_worker_is_replaced_and_told_that_it_is_a_restart(daemon, start):
    session = start("unit", "restart-True")
    worker = daemon.wait_attached()["table", 0]
    assert session.memory[-1] == 0
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: session.memory[-1] == 7)
    replaced = daemon.wait_attached()["table", 0]
    assert replaced["restarts"] == 1
    assert session.failed == 0
    assert "table worker 0 (pid {}) was killed by signal 9; replaced by pid {}\n".format(
        worker["pid"], replaced["pid"]) in daemon.log()


def test_a_worker_killed_while_idle_is_replaced_and_a_later_failure_rings_every_bell(daemon, start):
    pid = daemon.workers("key")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: daemon.workers("key")[0]["pid"] not in (None, pid))
    session = start("unit", "restart-False")
    workers = daemon.wait_attached()
    bells = session.memory[structs.SESSION_BELLS_OFFSET:].view(structs.BELL)[:structs.BELLS]
    before = bells["futex"].copy()
    os.kill(workers["table", 0]["pid"], signal.SIGBUS)
    wait_until(lambda: session.failed)
    wait_until(lambda: (bells["futex"] != before).all())


@pytest.mark.parametrize("table, code, words", [
    ("key-segv", 130, "key worker 0 (pid {}) exited: killed by SIGSEGV"),
    pytest.param("table-segv", 122, "table worker 0 (pid {}) exited: killed by SIGSEGV. Its memory may be damaged",
                 marks=pytest.mark.long),
    ("table-raise", 122, "exit code 1 (ValueError: slot 7 has two keys)"),
    ("table-report", 122, "entry 5 is torn"),
])
def test_a_worker_that_ends_in_any_other_way_fails_the_session(daemon, start, table, code, words):
    pid = daemon.workers(table.split("-")[0])[0]["pid"]
    session = start("unit", table)
    wait_until(lambda: session.failed)
    assert session.failed == code
    assert words.format(pid) in session.failure_text
    status = daemon.status()
    assert (status["state"], status["failure"][:4]) == ("failed", "E{}".format(code))
    assert [worker["pid"] for worker in status["workers"]] == [None, None]
    session.link.close()
    start("unit")
    daemon.wait_attached()


@pytest.mark.long  # waits for all the back-offs; test_lifecycle has the decisions
def test_a_worker_that_dies_again_and_again_is_given_up_with_the_causes(daemon, start):
    session = start("unit", "key-crash-loop")
    wait_until(lambda: session.failed, 30.0)
    assert session.failed == 140
    assert "key worker 0 was restarted 5 times in 60 s" in session.failure_text
    assert session.failure_text.count("killed by SIGKILL") == 3


def test_a_batch_at_which_key_workers_end_again_and_again_is_named(daemon, start):
    session = start("unit")
    ring = segment.map(*session.pieces.streams[0])
    offset = int(ring[:structs.RING.itemsize].view(structs.RING)[0]["frames_offset"])
    frame = ring[offset:offset + structs.FRAME.itemsize].view(structs.FRAME)[0]
    frame["ticket"] = (7 << SEQUENCE_BITS) + 45
    while not session.failed:
        worker = daemon.workers("key")[0]
        if worker["attached"]:
            frame["claim"] = worker["generation"]
            os.kill(worker["pid"], signal.SIGKILL)
            wait_until(lambda: session.failed or daemon.workers("key")[0]["generation"] != frame["claim"])
    assert session.failed == 140
    assert session.failure_text.count("killed by SIGKILL, at work on batch 45 of stream 0") == 3


def test_half_a_compiled_kernel_is_thrown_away_and_the_worker_starts_again(start, monkeypatch, tmp_path):
    from ascpipe.daemon import kernel_cache

    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    folder = kernel_cache.prepare(str(tmp_path / "cache"))
    with open(os.path.join(folder, "half_a_file"), "w"):
        pass
    daemon = DaemonProcess("unit")
    try:
        wait_until(lambda: not os.listdir(folder))
        wait_until(lambda: daemon.workers("key")[0]["restarts"] == 1)
        start("unit")
        daemon.wait_attached()
    finally:
        daemon.end()


def test_a_cache_of_kernels_that_others_may_write_is_refused(monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(Exception, match="E214.*mode 777"):
        DaemonProcess("unit")


def _shared_memory_of(pid):
    """Descriptors and mappings of segments that a process holds."""
    folder = "/proc/{}/fd".format(pid)
    held = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    with open("/proc/{}/maps".format(pid)) as maps:
        held += maps.read().splitlines()
    return [line for line in held if "/dev/shm/ascpipe" in line or "memfd:ascpipe" in line]


def _status(run):
    from ascpipe.control import client, messages

    return client.ask(run, messages.Status())
