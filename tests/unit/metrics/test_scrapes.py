"""What is answered to a scrape, and what peers that misbehave cannot do."""
import select
import socket

import pytest

from ascpipe.control import web
from ascpipe.metrics import scrapes

GOOD = b"GET /metrics HTTP/1.1\r\nHost: localhost:9100\r\nAccept: text/plain\r\n\r\n"
BODY = b"ascpipe_up 1\n"


class Server:
    """Scrapes whose clock and turns are the test's."""

    def __init__(self, body=BODY, address="127.0.0.1"):
        self.now, self.asked, self._body = 100.0, 0, body
        listener = socket.socket()
        listener.bind((address, 0))
        listener.listen(32)
        self.address = "127.0.0.1", listener.getsockname()[1]
        self.scrapes = scrapes.scrapes(listener, self._content, "text/x", lambda: self.now)
        self._peers = []

    def _content(self):
        self.asked += 1
        return self._body

    def turns(self, count=20):
        """As many as can be of use."""
        for _ in range(count):
            poll = select.poll()
            for fd, events in self.scrapes.events():
                poll.register(fd, events)
            self.scrapes.serve(dict(poll.poll(1)))

    def connect(self, request=b""):
        peer = socket.create_connection(self.address, 5)
        self._peers.append(peer)
        peer.sendall(request)
        return peer

    def ask(self, request):
        return self.answer(self.connect(request))

    def answer(self, peer):
        """All that comes until the connection is closed; b"" where it is closed without an answer."""
        peer.settimeout(0.01)
        answer = b""
        for _ in range(2000):
            self.turns(1)
            try:
                came = peer.recv(1 << 20)
            except socket.timeout:
                continue
            except ConnectionResetError:
                return answer
            if not came:
                return answer
            answer += came
        raise AssertionError("it is not closed: {!r}".format(answer[:200]))

    def is_open(self, peer):
        peer.settimeout(0.01)
        self.turns()
        try:
            return peer.recv(1) != b""
        except socket.timeout:
            return True
        except ConnectionResetError:
            return False

    def close(self):
        for peer in self._peers:
            peer.close()
        self.scrapes.close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def code(answer):
    return int(answer.split(b" ", 2)[1])


def test_a_scrape_has_the_metrics_with_type_and_length(server):
    head, body = server.ask(GOOD).split(b"\r\n\r\n", 1)
    assert body == BODY
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert {b"Content-Type: text/x", b"Content-Length: 13", b"Connection: close"} <= set(lines)
    assert server.scrapes.wait_s() is None


@pytest.mark.parametrize("request_line, status", [
    (b"GET /metrics HTTP/1.0", 200), (b"GET /metrics?name[]=x HTTP/1.1", 200),
    (b"GET / HTTP/1.1", 404), (b"GET /metrics/ HTTP/1.1", 404), (b"GET /../metrics HTTP/1.1", 404),
    (b"POST /metrics HTTP/1.1", 405), (b"HEAD /metrics HTTP/1.1", 405), (b"get /metrics HTTP/1.1", 405),
    (b"GET /metrics HTTP/2", 505), (b"GET /metrics", 400), (b"GET  /metrics HTTP/1.1", 400), (b"", 400),
    (b"GET /metrics SMTP", 400), (b"\xff\x00 /metrics HTTP/1.1", 400)])
def test_nothing_but_get_metrics_is_answered_well(server, request_line, status):
    answer = server.ask(request_line + b"\r\n\r\n")
    assert code(answer) == status
    assert server.asked == (status == 200)
    assert (b"\r\nAllow: GET\r\n" in answer) == (status == 405)


OWN = [b"localhost", b"LOCALHOST:9100", b"127.0.0.1:9100", b"127.9.9.9", b"[::1]:9100", b"10.0.0.7",
       socket.gethostname().encode(), b"node.localhost"]
FOREIGN = [b"evil.example", b"evil.example:9100", b"127.0.0.1.evil.example", b"localhost.evil.example", b"here",
           b"[::1].evil.example", b"a b", b"\xff", b"127.0.0.1:x.example", b"0x7f.1"]


@pytest.mark.parametrize("host", OWN)
def test_addresses_and_names_of_this_machine_are_answered(server, host):
    assert code(server.ask(b"GET /metrics HTTP/1.1\r\nhost:  " + host + b" \r\n\r\n")) == 200


@pytest.mark.parametrize("host", FOREIGN, ids=range(len(FOREIGN)))
def test_on_loopback_no_other_name_is_answered_which_a_page_in_a_browser_could_have(server, host):
    answer = server.ask(b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert code(answer) == 403 and server.asked == 0
    assert b"Host" in answer


def test_two_hosts_are_one_too_many(server):
    assert code(server.ask(GOOD[:-2] + b"Host: localhost\r\n\r\n")) == 400


def test_beyond_loopback_any_name_is_answered():
    server = Server(address="0.0.0.0")
    try:
        assert code(server.ask(b"GET /metrics HTTP/1.1\r\nHost: pod-7.metrics.svc:9100\r\n\r\n")) == 200
    finally:
        server.close()


def test_a_request_may_come_byte_by_byte(server):
    peer = server.connect()
    for byte in GOOD:
        peer.sendall(bytes([byte]))
        server.turns(3)
    assert code(server.answer(peer)) == 200


def test_a_request_that_is_too_long_is_refused_unread(server):
    long = GOOD[:-2] + b"X: " + b"x" * web.REQUEST_BYTES
    assert code(server.ask(long)) == 431
    assert server.asked == 0


def test_the_longest_request_is_answered(server):
    room = web.REQUEST_BYTES - len(GOOD) - len(b"X: \r\n")
    assert code(server.ask(GOOD[:-2] + b"X: " + b"x" * room + b"\r\n\r\n")) == 200


def test_a_peer_that_sends_half_a_request_keeps_none_waiting_and_is_closed_in_time(server):
    slow = server.connect(b"GET /met")
    assert code(server.ask(GOOD)) == 200
    server.now += web.PATIENCE_S - 1
    slow.sendall(b"r")  # a byte now and then is not more time
    assert server.is_open(slow)
    assert 0 < server.scrapes.wait_s() <= 1
    server.now += 1.1
    assert not server.is_open(slow)


def test_a_peer_that_reads_nothing_keeps_none_waiting_and_is_closed_in_time():
    server = Server(b"x" * (64 << 20))
    try:
        slow = server.connect(GOOD)
        server.turns()
        assert code(server.connect(GOOD).recv(0) or server.ask(b"GET / HTTP/1.1\r\n\r\n")) == 404
        server.now += web.PATIENCE_S + 0.1
        server.turns()
        received = 0
        while True:
            came = slow.recv(1 << 20)
            received += len(came)
            if not came:
                break
        assert 0 < received < 64 << 20
    finally:
        server.close()


def test_connections_are_bounded_and_the_oldest_gives_way(server):
    peers = [server.connect(b"GET") for _ in range(scrapes.MAX_PEERS)]
    server.turns()
    assert all(server.is_open(peer) for peer in peers)
    assert code(server.ask(GOOD)) == 200
    assert [server.is_open(peer) for peer in peers] == [False] + [True] * (scrapes.MAX_PEERS - 1)
    assert len(server.scrapes.events()) <= 1 + scrapes.MAX_PEERS


def test_peers_that_close_at_once_leave_nothing(server):
    for _ in range(50):
        server.connect(GOOD[:9]).close()
        server.connect().close()
        server.turns(4)
    server.turns()
    assert len(server.scrapes.events()) == 1
    assert code(server.ask(GOOD)) == 200
