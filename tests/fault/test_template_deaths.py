"""The process that workers are forked from is never needed: workers begin and live on without it."""
import os
import signal

import psutil
import pytest

from ascpipe.daemon.worker_identity import KEY, TABLE, Worker
from tests.support.daemons import DaemonProcess, is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def daemon(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(1 << 20))
    made = DaemonProcess("unit")
    yield made
    made.end()


def title(pid):
    """What ps shows."""
    return " ".join(psutil.Process(pid).cmdline()).rstrip("\0 ")


def was_executed(pid):
    """A worker that is executed has the folder of kernels in its environment; the template is told it later."""
    return "NUMBA_CACHE_DIR" in psutil.Process(pid).environ()


def workers(daemon):
    """Process ids by place, once all have begun."""
    wait_until(lambda: all(worker["pid"] for worker in daemon.workers()))
    return {Worker(worker["kind"], worker["index"]): worker["pid"] for worker in daemon.workers()}


def template(daemon, pids):
    """Its process id: the child of the daemon that is no worker."""
    (pid,) = [child.pid for child in psutil.Process(daemon.pid).children() if child.pid not in pids.values()]
    assert title(pid) == "ascpipe: worker template"
    return pid


def replaced(daemon, place, before):
    """The worker in the place of one that was killed."""
    os.kill(before[place], signal.SIGKILL)
    wait_until(lambda: workers(daemon)[place] != before[place])
    return workers(daemon)[place]


def oom_score_adj(pid):
    with open("/proc/{}/oom_score_adj".format(pid)) as file:
        return file.read().strip()


def test_workers_are_forked_and_fenced_in_as_executed_ones_are_and_outlive_the_template(daemon):
    pids = workers(daemon)
    loaded = template(daemon, pids)
    for place, pid in pids.items():
        process = psutil.Process(pid)
        assert not was_executed(pid)
        wait_until(lambda: os.getsid(pid) == pid)  # noqa: B023  # a child does that first
        wait_until(lambda: oom_score_adj(pid) == {KEY: "500", TABLE: "100"}[place.kind])  # noqa: B023
        assert (process.ppid(), os.getpgid(pid)) == (daemon.pid, pid)
        assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        process.terminate()  # as a service manager does to the whole group
    first = replaced(daemon, Worker(KEY, 0), pids)
    assert not was_executed(first)
    # it has begun: one that has not dies with the template, which has other points
    wait_until(lambda: oom_score_adj(first) == "500")
    os.kill(loaded, signal.SIGKILL)
    wait_until(lambda: not is_alive(loaded))
    pids = workers(daemon)
    assert (pids[Worker(KEY, 0)], all(map(is_alive, pids.values()))) == (first, True)
    executed = replaced(daemon, Worker(TABLE, 0), pids)
    wait_until(lambda: title(executed) == "ascpipe: table worker 0 of unit")
    assert was_executed(executed)
    assert [worker["restarts"] for worker in daemon.workers()] == [1, 1]


def test_workers_begin_without_a_template_that_dies_while_it_loads(daemon):
    (loading,) = [child.pid for child in psutil.Process(daemon.pid).children()]
    os.kill(loading, signal.SIGKILL)
    for place, pid in workers(daemon).items():
        wait_until(lambda: title(pid) == "ascpipe: {} of unit".format(place.sentence))  # noqa: B023
        assert was_executed(pid)
    assert [worker["restarts"] for worker in daemon.workers()] == [0, 0]


def test_a_template_that_is_stopped_is_ended_and_the_worker_executed(daemon):
    pids = workers(daemon)
    stopped = template(daemon, pids)
    os.kill(stopped, signal.SIGSTOP)
    executed = replaced(daemon, Worker(KEY, 0), pids)
    wait_until(lambda: title(executed) == "ascpipe: key worker 0 of unit")
    assert was_executed(executed)
    assert not is_alive(stopped)


def test_a_killed_daemon_takes_the_template_and_forked_workers_with_it(daemon):
    pids = workers(daemon)
    processes = [template(daemon, pids), *pids.values()]
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    wait_until(lambda: not any(map(is_alive, processes)))


def test_ps_shows_for_each_process_what_it_is_and_of_which_daemon(daemon):
    for place, pid in workers(daemon).items():
        wait_until(lambda: title(pid) == "ascpipe: {} of unit".format(place.sentence))  # noqa: B023
        assert psutil.Process(pid).environ()["XDG_RUNTIME_DIR"] == os.environ["XDG_RUNTIME_DIR"]
    assert title(daemon.pid) == "ascpipe: daemon unit"


def umasks(*pids):
    """As the kernel shows them."""
    said = []
    for pid in pids:
        with open("/proc/{}/status".format(pid)) as file:
            said += [line.split()[1] for line in file if line.startswith("Umask:")]
    return said


def test_files_of_every_process_are_ours_alone_whatever_umask_the_daemon_was_started_with():
    before = os.umask(0)
    try:
        daemon = DaemonProcess("unit", workers=2)
    finally:
        os.umask(before)
    try:
        pids = workers(daemon)
        loaded = template(daemon, pids)
        assert umasks(daemon.pid, loaded, *pids.values()) == ["0077"] * 5
        os.kill(loaded, signal.SIGKILL)
        assert umasks(replaced(daemon, Worker(TABLE, 0), pids)) == ["0077"]  # this one was executed
    finally:
        daemon.end()
