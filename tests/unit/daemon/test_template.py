"""The template as the supervisor sees it: what it says, what it does not say, and the workers that it forks."""
import os
import signal
import socket
import subprocess
import sys

import pytest

from ascpipe.control import fdsocket
from ascpipe.daemon import template
from ascpipe.daemon.template import GONE, LOADING, READY, Adopted, Template

BODY = {"kind": "key", "index": 0, "generation": 1, "oom_score_adj": "500"}


@pytest.fixture
def both(monkeypatch):
    """A template, and its end of the channel; its process only waits."""
    monkeypatch.setattr(template, "_FORK_S", 0.05)
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    made = Template(lambda: (process, ours))
    with theirs:
        yield made, theirs
        made.end()
    assert process.returncode == -signal.SIGKILL
    assert made.fds() == ()


def loaded(made, theirs):
    fdsocket.send(theirs, {"verb": "loaded"})
    made.look()
    assert made.state == READY


def test_it_is_loading_until_it_says_that_it_has_loaded(both):
    made, theirs = both
    made.look()
    assert (made.state, len(made.fds())) == (LOADING, 1)
    assert made.fork(BODY, (0, 1)) is None
    loaded(made, theirs)
    made.look()
    assert made.state == READY


def test_it_is_told_where_the_kernels_lie_and_where_to_write_to(both, tmp_path):
    made, theirs = both
    with open(str(tmp_path / "log"), "wb") as log:
        made.load("/kernels", "/l.so", log.fileno())
    body, (fd,) = fdsocket.receive(theirs, 1.0)
    os.write(fd, b"said")
    os.close(fd)
    assert body == {"verb": "load", "cache_dir": "/kernels", "library": "/l.so"}
    assert ((tmp_path / "log").read_bytes(), made.state) == (b"said", LOADING)


def test_one_that_has_ended_before_it_is_told_to_load_is_gone(both):
    made, theirs = both
    theirs.close()
    made.load("/kernels", "", 1)
    assert made.state == GONE


@pytest.mark.parametrize("say", [
    lambda theirs: theirs.shutdown(socket.SHUT_RDWR), lambda theirs: fdsocket.send(theirs, {"verb": "hello"}),
    lambda theirs: theirs.send(b"\xff" * 9)], ids=["nothing more", "another word", "no word"])
@pytest.mark.parametrize("first", [True, False])
def test_one_that_ends_or_says_anything_else_is_gone(both, say, first):
    made, theirs = both
    if not first:
        loaded(made, theirs)
    say(theirs)
    made.look()
    assert made.state == GONE
    assert made.fork(BODY, (0, 1)) is None


@pytest.mark.parametrize("answer", [None, {"verb": "forked", "pid": 1}, {"verb": "loaded"}],
                         ids=["none", "no child of ours", "another word"])
def test_one_that_does_not_fork_what_it_is_asked_for_is_gone(both, answer):
    made, theirs = both
    loaded(made, theirs)
    if answer is not None:
        fdsocket.send(theirs, answer)
    assert made.fork(BODY, (0, 1)) is None
    assert made.state == GONE


def test_it_gets_what_the_worker_needs_and_the_worker_is_ours(both):
    made, theirs = both
    loaded(made, theirs)
    child = os.fork()
    if child == 0:
        signal.pause()
    fdsocket.send(theirs, {"verb": "forked", "pid": child})
    worker = made.fork(BODY, (0, 1))
    body, fds = fdsocket.receive(theirs, 1.0)
    for fd in fds:
        os.close(fd)
    assert (body, len(fds)) == (BODY, 2)
    assert (worker.pid, worker.poll(), worker.returncode) == (child, None, None)
    worker.kill()
    assert worker.wait() == worker.poll() == worker.returncode == -signal.SIGKILL
    worker.kill()  # reaped: nobody is signalled


def test_an_answer_that_comes_too_late_is_an_answer_all_the_same(both, monkeypatch):
    made, theirs = both
    loaded(made, theirs)
    child = os.fork()
    if child == 0:
        signal.pause()
    kill = made._process.kill
    monkeypatch.setattr(made._process, "kill", lambda: (
        fdsocket.send(theirs, {"verb": "forked", "pid": child}), kill()))
    worker = made.fork(BODY, (0, 1))
    monkeypatch.undo()
    assert (worker.pid, made.state) == (child, GONE)
    worker.kill()
    worker.wait()


def test_an_exit_code_is_that_of_popen():
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert Adopted(child).wait() == 7
    with pytest.raises(ChildProcessError):
        Adopted(child)
