"""A lifeline where the kernel gives no pidfd, or no descriptor at all: the daemon lives on."""
import errno
import os
import socket

import pytest

from ascpipe.control import fdsocket
from ascpipe.daemon import lifelines
from ascpipe.daemon.lifelines import Lifelines

TOKEN = b"t" * 16


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket path has 107 bytes at most
    made = Lifelines("lifeline")
    yield made
    made.close()


def refuse(monkeypatch, number):
    def pidfd_open(pid):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lifelines.syscalls, "pidfd_open", pidfd_open)


def connect():
    trainer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    trainer.connect("lifeline")
    return trainer


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])  # an old kernel; a container that forbids the call
def test_without_a_pidfd_the_socket_alone_is_watched(lines, monkeypatch, number):
    refuse(monkeypatch, number)
    with connect() as trainer:
        lines.serve(lines.fds())
        assert fdsocket.receive(trainer, 1.0)[0] == {"verb": "hello", "pid": os.getpid()}
        fdsocket.send(trainer, {"verb": "trainer", "token": TOKEN})
        lines.serve(lines.fds())
        line = lines.take(os.getpid(), TOKEN)
        assert line.fds() == [line.sock.fileno()]
        line.close()


def test_without_a_free_descriptor_a_connection_is_refused_and_the_next_one_is_taken(lines, monkeypatch):
    with monkeypatch.context() as scarce:
        refuse(scarce, errno.EMFILE)
        with connect() as trainer:
            lines.serve(lines.fds())
            assert trainer.recv(1) == b""
    with connect() as trainer:
        lines.serve(lines.fds())
        assert fdsocket.receive(trainer, 1.0)[0]["verb"] == "hello"


def test_where_not_even_a_connection_can_be_accepted_the_daemon_lives_on(lines, monkeypatch):
    class NoFiles:
        def accept(self):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def fileno(self):
            return 0

    with monkeypatch.context() as scarce:
        scarce.setattr(lines, "_listener", NoFiles())
        lines.serve([0])
    assert len(lines.fds()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_lifeline_of_another_user_is_closed_without_a_word_even_if_the_socket_were_open(lines, tmp_path):
    for path in (".", "lifeline"):
        os.chmod(path, 0o777)
    listener, connected = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
                stranger.settimeout(20)
                stranger.connect("lifeline")
                os.write(connected, b"x")
                os._exit(0 if stranger.recv(1) == b"" else 1)
        except ConnectionResetError:
            os._exit(0)
        finally:
            os._exit(3)
    os.close(connected)
    assert os.read(listener, 1) == b"x"
    os.close(listener)
    lines.serve(lines.fds())
    assert os.waitpid(pid, 0)[1] == 0
    assert len(lines.fds()) == 1
