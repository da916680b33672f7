"""One question, one answer, with a deadline; a broken peer harms nobody."""
import os
import threading

import pytest
import zmq

from ascpipe import names
from ascpipe.control import client, codec, lock, messages, server
from ascpipe.errors import BusyError, MessageError, NoAnswerError, NotRunningError
from tests.support.waiting import wait_until


@pytest.fixture
def run():
    """A run directory whose lock is held, as by a daemon."""
    found = names.run_dir("unit")
    names.make_private_dir(names.base_dir())
    names.make_private_dir(found.path)
    held = lock.try_acquire(found)
    yield found
    os.close(held)
    for name in found.files():
        os.unlink(os.path.join(found.path, name))
    os.rmdir(found.path)


class Daemon:
    """Answers with ``answer(request)`` in a thread of its own."""

    def __init__(self, run, answer, **options):
        self.server, self._answer, self._stop = server.Server(run.control_endpoint, **options), answer, False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stop:
            self.server.socket.poll(10)
            for peer, request in self.server.requests():
                try:
                    self.server.reply(peer, request.id, self._answer(request))
                except BusyError as error:
                    self.server.refuse(peer, request.id, error)
        self.server.close()

    def close(self):
        self._stop = True
        self._thread.join()


@pytest.fixture
def serve(run):
    daemons = []

    def start(answer, **options):
        daemons.append(Daemon(run, answer, **options))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


def test_an_answer_comes_back(run, serve):
    serve(lambda request: {"verb": request.verb})
    assert client.ask(run, messages.Status()) == {"verb": "status"}
    assert client.ask(run, messages.Stop()) == {"verb": "stop"}


def test_a_refusal_is_raised_as_its_class(run, serve):
    def refuse(request):
        raise BusyError(run.name, 77, "noon")

    serve(refuse)
    with pytest.raises(BusyError, match="pid 77"):
        client.ask(run, messages.Status())


def test_a_daemon_that_says_nothing_is_not_waited_for_any_longer(run):
    listening = server.Server(run.control_endpoint)
    try:
        with pytest.raises(NoAnswerError, match=r"'unit' did not answer 'status' within 0\.3 s"):
            client.ask(run, messages.Status(), timeout_s=0.3)
    finally:
        listening.close()


def test_without_a_daemon_the_answer_is_immediate(run):
    with pytest.raises(NotRunningError, match="ascpipe start --name nobody"):
        client.ask(names.run_dir("nobody"), messages.Status(), timeout_s=60.0)


def test_a_daemon_that_ends_while_it_is_asked_is_noticed(run):
    held = lock.is_held(run)
    assert held
    other = names.run_dir("ending")
    names.make_private_dir(other.path)
    fd = lock.try_acquire(other)
    timer = threading.Timer(0.1, os.close, (fd,))
    timer.start()
    with pytest.raises(NotRunningError):
        client.ask(other, messages.Status(), timeout_s=60.0)
    timer.join()
    os.unlink(other.lock)
    os.rmdir(other.path)


def raw_socket(run):
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(run.control_endpoint)
    return context, socket


@pytest.mark.parametrize("frames", [[b""], [b"\xc1" * 100], [codec.pack({"v": 1})], [b"a", b"b"],
                                    [b"\x81\xa1a" + b"\xdc\x04\x00" * 20000]])
def test_what_is_no_request_is_answered_by_an_error_and_harms_nobody(run, serve, frames):
    daemon = serve(lambda request: {})
    context, socket = raw_socket(run)
    try:
        socket.send_multipart(frames)
        assert socket.poll(5000)
        reply = messages.parse_reply(socket.recv())
        assert isinstance(reply.error, MessageError)
        assert client.ask(run, messages.Status()) == {}
        assert daemon.server.refused == 1
    finally:
        socket.close(0)
        context.term()


def test_too_many_parts_are_dropped(run, serve):
    daemon = serve(lambda request: {})
    context, socket = raw_socket(run)
    try:
        socket.send_multipart([b"x"] * 5)
        socket.send(messages.request_bytes(1, messages.Status()))
        assert socket.poll(5000)
        assert messages.parse_reply(socket.recv()).error is None
        assert daemon.server.dropped == 1
    finally:
        socket.close(0)
        context.term()


def test_a_peer_that_sends_too_much_is_disconnected(run, serve):
    serve(lambda request: {})
    context, socket = raw_socket(run)
    monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    try:
        socket.send(b"x" * 200_000)
        assert monitor.poll(5000)
        assert client.ask(run, messages.Status()) == {}
    finally:
        socket.disable_monitor()
        monitor.close(0)
        socket.close(0)
        context.term()


def test_a_flood_is_dropped_above_the_rate_and_others_are_served(run, serve):
    daemon = serve(lambda request: {}, clock=lambda: 5.0)
    context, socket = raw_socket(run)
    try:
        for number in range(server.REQUESTS_PER_S):
            socket.send(messages.request_bytes(number, messages.Status()))
            assert socket.poll(5000)
            socket.recv()
        for number in range(10):
            socket.send(messages.request_bytes(number, messages.Status()))
        wait_until(lambda: daemon.server.dropped == 10)
        assert client.ask(run, messages.Status()) == {}
        assert not socket.poll(0)
    finally:
        socket.close(0)
        context.term()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_gets_nothing_through_even_if_the_directory_were_open(run, serve):
    seen = []
    serve(lambda request: seen.append(request) or {})
    for path in (os.path.dirname(os.path.dirname(run.path)), os.path.dirname(run.path), run.path, run.control):
        os.chmod(path, 0o777)
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            context, socket = raw_socket(run)
            socket.send(messages.request_bytes(1, messages.Status()))
            os._exit(1 if socket.poll(700) else 0)
        finally:
            os._exit(2)
    status = os.waitpid(pid, 0)[1]
    for path in (os.path.dirname(os.path.dirname(run.path)), os.path.dirname(run.path), run.path):
        os.chmod(path, 0o700)
    assert (status, seen) == (0, [])


def test_the_lock_is_taken_once_and_freed_by_its_end(run):
    assert lock.try_acquire(run) is None
    other = names.run_dir("second")
    names.make_private_dir(other.path)
    assert not lock.is_held(other)
    fd = lock.try_acquire(other)
    assert lock.is_held(other)
    os.close(fd)
    assert not lock.is_held(other)
    os.unlink(other.lock)
    os.rmdir(other.path)


def test_a_lock_that_was_swept_away_meanwhile_is_taken_anew(run, monkeypatch):
    other = names.run_dir("swept")
    names.make_private_dir(other.path)
    flock, swept = lock.fcntl.flock, []

    def sweep_first(fd, operation):
        if not swept:
            swept.append(os.unlink(other.lock))
        flock(fd, operation)

    monkeypatch.setattr(lock.fcntl, "flock", sweep_first)
    fd = lock.try_acquire(other)
    monkeypatch.undo()
    assert lock.is_held(other)
    os.close(fd)
    os.unlink(other.lock)
    os.rmdir(other.path)
