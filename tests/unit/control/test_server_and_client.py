"""One question, one answer, with a deadline; a broken peer harms nobody."""
import os
import select
import socket
import threading
import time

import pytest

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
        self.server, self._answer, self._stop = server.Server(run.control, **options), answer, False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stop:
            select.select(self.server.fds(), [], [], 0.01)
            for peer, request in self.server.requests():
                try:
                    answer = self._answer(request)
                    self.server.reply(peer, request.id, *(answer if isinstance(answer, tuple) else (answer,)))
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


def test_descriptors_come_with_an_answer_and_are_closed_when_it_was_read(run, serve):
    ours, theirs = os.pipe()
    serve(lambda request: ({"verb": request.verb}, [ours]))
    before = set(os.listdir("/proc/self/fd"))
    with client.asked(run, messages.Status()) as (answer, (fd,)):
        assert (answer, os.fstat(fd).st_ino) == ({"verb": "status"}, os.fstat(ours).st_ino)
        assert not os.get_inheritable(fd)
    assert client.ask(run, messages.Status()) == {"verb": "status"}  # of one that wants none
    # The daemon is a thread of this process: it closes its end of a connection after the answer was read.
    wait_until(lambda: set(os.listdir("/proc/self/fd")) == before, what="each descriptor is closed")
    os.close(ours)
    os.close(theirs)


def test_a_refusal_is_raised_as_its_class(run, serve):
    def refuse(request):
        raise BusyError(run.name, 77, "noon")

    serve(refuse)
    with pytest.raises(BusyError, match="pid 77"):
        client.ask(run, messages.Status())


def test_a_daemon_that_says_nothing_is_not_waited_for_any_longer(run):
    listening = server.Server(run.control)
    try:
        with pytest.raises(NoAnswerError, match=r"'unit' \(pid \?\) did not answer 'status' within 0\.3 s"):
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


@pytest.fixture
def connect(run):
    socks = []

    def open_one():
        socks.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        socks[-1].connect(run.control)
        return socks[-1]

    yield open_one
    for sock in socks:
        sock.close()


def received(sock):
    assert select.select([sock], [], [], 5.0)[0]
    return messages.parse_reply(sock.recv(codec.MESSAGE_BYTES))


STATUS = messages.request_bytes(1, messages.Status())


@pytest.mark.parametrize("data", [b"", b"\xc1" * 100, codec.pack({"v": 1}), b"x" * (codec.MESSAGE_BYTES + 1),
                                  b"x" * 150_000, b"\x81\xa1a" + b"\xdc\x04\x00" * 20000], ids=len)
def test_what_is_no_request_is_answered_by_an_error_and_harms_nobody(run, serve, connect, data):
    daemon = serve(lambda request: {})
    sock = connect()
    sock.send(data)
    assert isinstance(received(sock).error, MessageError)
    assert sock.recv(1) == b""
    assert client.ask(run, messages.Status()) == {}
    assert daemon.server.refused == 1


def test_a_connection_has_one_answer(serve, connect):
    seen = []
    serve(lambda request: seen.append(request.id) or {})
    sock = connect()
    sock.send(STATUS)
    assert received(sock).error is None
    assert sock.recv(1) == b""
    with pytest.raises(BrokenPipeError):
        sock.send(STATUS)
    assert seen == [1]


def test_descriptors_that_come_with_a_message_are_not_taken(serve, connect):
    serve(lambda request: {})
    sock = connect()
    reading, writing = os.pipe()
    sock.sendmsg([STATUS], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, writing.to_bytes(4, "little"))])
    os.close(writing)
    assert received(sock).error is None
    assert os.read(reading, 1) == b""  # nobody holds the other end
    os.close(reading)


class Clock:
    now = 5.0

    def __call__(self):
        return self.now


@pytest.fixture
def listening(run):
    clock = Clock()
    made = server.Server(run.control, clock)
    made.time = clock
    yield made
    made.close()


def test_what_a_peer_that_has_gone_had_sent_is_not_read(listening, connect):
    gone, there = connect(), connect()
    gone.send(STATUS)
    there.send(STATUS)
    gone.close()
    assert [request.id for _, request in served(listening)] == [1]
    assert listening.dropped == 1
    late = connect()
    assert served(listening) == []  # it is accepted
    late.send(STATUS)
    late.close()
    assert served(listening) == []
    assert listening.dropped == 2


def served(listening):
    """What one turn brings, answered."""
    found = []
    for peer, request in listening.requests():
        listening.reply(peer, request.id, {})
        found.append((peer, request))
    return found


def test_only_the_trainer_is_read_beyond_a_few_values(listening, connect):
    start = messages.request_bytes(1, messages.Start(
        (messages.Stream(0, 0, tuple(range(20))),), tuple(messages.Table(n, "t", 4, 9) for n in range(20)), b"t" * 16))
    for trainer, reads in ((os.getpid() + 1, 0), (None, 0), (os.getpid(), 1)):
        sock = connect()
        sock.send(start)
        requests = list(listening.requests(trainer))
        assert len(requests) == reads
        for peer, request in requests:
            listening.reply(peer, request.id, {})
        error = received(sock).error
        assert error is None if reads else "at most {} are accepted".format(codec.MAX_VALUES_SHORT) in str(error)
    for body in (messages.Register(1, 1, "v" * 64, b"t" * 16), messages.Status(), messages.Bye(b"t" * 16)):
        connect().send(messages.request_bytes(1, body))
        assert len(served(listening)) == 1


def test_connections_are_few_and_those_without_a_request_give_way(listening, connect):
    silent = [connect() for _ in range(server.MAX_PEERS)]
    assert served(listening) == []
    for _ in range(3):
        sock = connect()
        sock.send(STATUS)
        assert len(served(listening)) == 1
        assert len(listening.fds()) <= 1 + server.MAX_PEERS
        assert received(sock).error is None
    assert [bool(select.select([sock], [], [], 0)[0]) for sock in silent] == [True] + [False] * (server.MAX_PEERS - 1)


def test_a_connection_that_says_nothing_for_too_long_is_closed(listening, connect):
    sock = connect()
    served(listening)
    listening.time.now += server.PATIENCE_S
    served(listening)
    assert not select.select([sock], [], [], 0)[0]
    listening.time.now += 0.1
    served(listening)
    assert sock.recv(1) == b""


def test_a_turn_has_an_end_and_the_next_goes_on_with_the_oldest(listening, connect):
    for number in range(4):
        connect().send(messages.request_bytes(number, messages.Status()))
    found = []
    for _ in range(4):
        for peer, request in listening.requests():
            listening.time.now += 0.6 * server.TURN_S
            listening.reply(peer, request.id, {})
            found.append(request.id)
        found.append("turn")
    assert found == [0, 1, "turn", 2, 3, "turn", "turn", "turn"]


def test_a_client_whose_connection_had_to_give_way_asks_again(run, listening):
    answers = []
    asking = threading.Thread(target=lambda: answers.append(client.ask(run, messages.Status())))
    asking.start()
    wait_until(lambda: select.select(listening.fds(), [], [], 0)[0])
    peer, _ = listening._listener.accept()
    assert select.select([peer], [], [], 5.0)[0]
    peer.close()  # with its request unread
    wait_until(lambda: served(listening))
    asking.join()
    assert answers == [{}]


def test_a_request_that_was_read_is_not_sent_again(run, listening):
    errors = []

    def ask():
        try:
            client.ask(run, messages.Status(), timeout_s=0.5)
        except NoAnswerError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: select.select(listening.fds(), [], [], 0)[0])
    peer, _ = listening._listener.accept()
    assert peer.recv(codec.MESSAGE_BYTES)
    peer.close()
    asking.join()
    assert len(errors) == 1
    assert served(listening) == [] and listening.dropped == 0


def test_a_client_waits_for_its_turn_no_longer_than_it_was_told(run, listening, connect):
    waiting = []
    while len(waiting) <= server.MAX_PEERS:  # all that can wait to be accepted
        waiting.append(connect())
    began = time.monotonic()
    with pytest.raises(NoAnswerError):
        client.ask(run, messages.Status(), timeout_s=0.3)
    assert 0.3 <= time.monotonic() - began < 5.0


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
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.connect(run.control)
            sock.send(STATUS)
            os._exit(1 if sock.recv(1) else 2)
        except (ConnectionResetError, BrokenPipeError):
            os._exit(0)
        finally:
            os._exit(3)
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
