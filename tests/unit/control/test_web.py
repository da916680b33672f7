"""Streams of events: what they receive, and what peers that misbehave cannot do. ``test_scrapes.py`` has the rest."""
import select
import socket

import pytest

from ascpipe.control import web

PEERS, STREAMS = 4, 3


class Server:
    """A server with a stream at /events, whose clock and turns are the test's."""

    def __init__(self):
        self.now = 100.0
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(32)
        self.address = listener.getsockname()
        self.made = web.Server(listener, self._route, peers=PEERS, streams=STREAMS, clock=lambda: self.now)
        self._clients = []

    def _route(self, request):
        if request.path == "/events":
            return web.Answer(200, b"data: first\n\n", "text/event-stream", is_stream=True)
        return web.Answer(200, request.query.encode())

    def turns(self, count=20):
        for _ in range(count):
            poll = select.poll()
            for fd, events in self.made.events():
                poll.register(fd, events)
            self.made.serve(dict(poll.poll(1)))

    def open(self, path="/events", receives=None):
        client = socket.socket()
        if receives is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        client.settimeout(5)
        client.connect(self.address)
        self._clients.append(client)
        client.sendall("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n".format(path).encode())
        self.turns()
        return client

    def close(self):
        for client in self._clients:
            client.close()
        self.made.close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def test_a_stream_gets_its_first_event_and_each_later_one(server):
    stream = server.open()
    head, body = stream.recv(1 << 16).split(b"\r\n\r\n", 1)
    assert b"Content-Length" not in head and body == b"data: first\n\n"
    server.now += 3600  # a stream that reads has no end
    server.made.publish(b"data: 2\n\n")
    server.made.publish(b"data: 3\n\n")
    server.turns()
    assert stream.recv(1 << 16) == b"data: 2\n\ndata: 3\n\n"
    assert server.made.wait_s() is None and server.made.streams == 1


def test_streams_beyond_the_limit_are_refused_and_a_closed_one_makes_room(server):
    streams = [server.open() for _ in range(STREAMS)]
    assert b" 503 " in server.open().recv(1 << 16)
    streams[0].close()
    server.turns()
    assert b" 200 " in server.open().recv(1 << 16)


def test_other_connections_do_not_end_streams(server):
    stream = server.open()
    stream.recv(1 << 16)
    for _ in range(PEERS + 3):
        silent = socket.create_connection(server.address)
        server._clients.append(silent)
        server.turns()
    server.made.publish(b"data: x\n\n")
    server.turns()
    assert stream.recv(1 << 16) == b"data: x\n\n"
    assert len(server.made.events()) <= 1 + PEERS + STREAMS


@pytest.mark.parametrize("how", ["by time", "by bytes"])
def test_a_client_that_never_reads_is_dropped_and_memory_is_bounded(server, how):
    slow, good = server.open(receives=4096), server.open()
    good.recv(1 << 16)
    event = b"data: " + b"x" * (web.UNSENT_BYTES // 8) + b"\n\n"
    got = 0
    for _ in range(200):
        server.made.publish(event)
        while got < len(event):
            server.turns(2)
            got += len(good.recv(1 << 20))
        got -= len(event)
        assert sum(peer.unsent for peer in server.made._peers.values()) <= 2 * web.UNSENT_BYTES
        if how == "by time":
            server.now += 1.0
        if server.made.streams == 1:
            break
    assert server.made.streams == 1
    assert server.open("/", None).recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    slow.close()


def test_bytes_that_a_client_sends_into_its_stream_are_ignored(server):
    stream = server.open()
    stream.recv(1 << 16)
    stream.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    server.turns()
    server.made.publish(b"data: x\n\n")
    server.turns()
    assert stream.recv(1 << 16) == b"data: x\n\n"


def test_a_client_that_half_closes_its_connection_ends_its_stream(server):
    stream = server.open()
    stream.shutdown(socket.SHUT_WR)
    server.turns()
    assert server.made.streams == 0


def test_the_query_is_the_part_after_the_question_mark(server):
    assert server.open("/x?a=1&b=%20?c").recv(1 << 16).endswith(b"\r\n\r\na=1&b=%20?c")
