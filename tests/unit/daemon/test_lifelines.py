"""A lifeline where the kernel gives no pidfd, or no descriptor at all: the daemon lives on."""
import errno
import os
import select
import socket
import time

import pytest

from ascpipe.control import codec, fdsocket
from ascpipe.daemon import lifelines
from ascpipe.daemon.lifelines import Lifeline, Lifelines

TOKEN = b"t" * 16


def packed(body):
    data = codec.pack(body)
    return len(data).to_bytes(4, "little") + data


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


WHOLE = packed({"verb": "trainer", "token": TOKEN})


def turn(lines):
    """As the daemon's loop has it."""
    lines.serve(select.select(lines.fds(), [], [], 0)[0])


def test_a_token_that_comes_in_pieces_is_waited_for_by_nothing_but_the_poll(lines):
    with connect() as trainer:
        turn(lines)
        began = time.monotonic()
        for place in range(len(WHOLE)):
            trainer.send(WHOLE[place:place + 1])
            turn(lines)
        assert time.monotonic() - began < 0.1  # it waited 0.2 s for each rest
        assert fdsocket.receive(trainer, 1.0)[0]["verb"] == "hello"
        assert fdsocket.receive(trainer, 1.0)[0] == {"verb": "known"}
        lines.take(os.getpid(), TOKEN).close()


@pytest.mark.parametrize("sent", [b"\xff" * 4, b"\x05\x00\x00\x00\x81\xa1a\x01\x01\x01", WHOLE + b"x", WHOLE * 2,
                                  b"\x00\x01\x00\x00" + b"x" * 300, b"\x01\x00\x00\x00\xc1"], ids=len)
def test_what_is_no_token_is_closed_at_once(lines, sent):
    with connect() as trainer:
        turn(lines)
        trainer.send(sent)
        turn(lines)
        turn(lines)
        assert len(lines.fds()) == 1


def test_descriptors_that_come_with_a_token_are_closed(lines):
    reading, writing = os.pipe()
    with connect() as trainer:
        turn(lines)
        trainer.sendmsg([WHOLE], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, writing.to_bytes(4, "little"))])
        os.close(writing)
        turn(lines)
        assert os.read(reading, 1) == b""
        os.close(reading)
        lines.take(os.getpid(), TOKEN).close()


def test_where_there_is_no_room_the_process_with_most_connections_loses_its_oldest(lines, monkeypatch):
    def numbered(sock, pid, now):
        line = Lifeline(sock, pid, now)
        line.pid = pids.pop()
        return line

    monkeypatch.setattr(lifelines, "Lifeline", numbered)
    pids, socks = [], []
    try:
        for pid in [1, *[2] * (lifelines.MAX_WAITING + 5)]:
            pids.append(pid)
            socks.append(connect())
            turn(lines)
        assert len(lines.fds()) == 1 + 2 * lifelines.MAX_WAITING
        closed = [fdsocket.receive(sock, 1.0) and fdsocket.is_closed(sock) for sock in socks]
        assert closed == [False] + [True] * 6 + [False] * (lifelines.MAX_WAITING - 1)
    finally:
        for sock in socks:
            sock.close()


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
