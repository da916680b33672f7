"""HTTP server for short answers and for streams of events. The numbers of connections and bytes, and all times, are
limited.

One thread serves all peers and never blocks, so slow peers do not delay other peers. Memory and work are bounded. A
connection carries one request. It is closed after the answer, unless the answer is a stream.

On a loopback address, the Host header of a request must be a local name or an IP address. Otherwise, a page in a
browser could read the answers through a domain name that resolves to 127.0.0.1 (DNS rebinding).
"""
import ipaddress
import re
import select
import socket
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

REQUEST_BYTES = 8192  #: maximum size of a request with its headers
PATIENCE_S = 5.0  #: maximum duration of a connection, and maximum time that a peer takes to read an event of a stream
UNSENT_BYTES = 1 << 20  #: maximum size of the events that a peer has not read
PLAIN = "text/plain; charset=utf-8"

_END = b"\r\n\r\n"
_READS = 65536
_PORT = re.compile(r":[0-9]*\Z")
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
            405: "Method Not Allowed", 431: "Request Header Fields Too Large", 503: "Service Unavailable",
            505: "HTTP Version Not Supported"}


class Request(NamedTuple):
    """First line of a valid request. ``query`` is the part of the request target after the question mark."""

    method: str
    path: str
    query: str


class Answer(NamedTuple):
    """Answer to a request.

    Attributes:
        status: HTTP status code.
        body: content, or the first events of a stream.
        content_type: content type of the body.
        headers: further lines of the head, such as ``"Allow: GET"``.
        is_stream: whether the connection stays open for ``publish``.
    """

    status: int
    body: bytes
    content_type: str = PLAIN
    headers: Tuple[str, ...] = ()
    is_stream: bool = False


class _Peer:
    """Connection, with the received bytes and the bytes of the answer that have not been sent. ``answer`` is None if
    there is no answer yet.
    """

    def __init__(self, sock: socket.socket, came: float) -> None:
        self.sock = sock
        self.came = came
        self.request = b""
        self.answer: Optional[memoryview] = None
        self.waiting: List[bytes] = []  # events after `answer`
        self.is_stream = False
        self.since = came  # time since which a stream has unsent bytes

    @property
    def unsent(self) -> int:
        return len(self.answer or b"") + sum(map(len, self.waiting))


class Server:
    """Server that answers HTTP requests on a listening socket.

    Args:
        listener: listening socket, which ``close`` closes.
        route: function that returns the answer to a request.
        peers: maximum number of connections without a stream.
        streams: maximum number of streams. Further streams are refused.
        clock: function that returns seconds.
    """

    def __init__(self, listener: socket.socket, route: Callable[[Request], Answer], *, peers: int, streams: int = 0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._route = route
        self._most_peers = peers
        self._most_streams = streams
        self._clock = clock
        self._listener.setblocking(False)
        self._is_loopback = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        self._peers: Dict[int, _Peer] = {}  # by descriptor, oldest first

    @property
    def streams(self) -> int:
        """Return the number of open streams."""
        return sum(peer.is_stream for peer in self._peers.values())

    def events(self) -> List[Tuple[int, int]]:
        """Return (descriptor, poll events) for each socket."""
        return [(self._listener.fileno(), select.POLLIN)] + [(fd, _events(peer)) for fd, peer in self._peers.items()]

    def wait_s(self) -> Optional[float]:
        """Return the seconds until a connection times out, or None if no connection can time out."""
        ends = [end for end in map(_end, self._peers.values()) if end is not None]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def serve(self, ready: Dict[int, int]) -> None:
        """Serve ready sockets without blocking.

        Args:
            ready: result of ``poll``, by descriptor.
        """
        now = self._clock()
        for fd, peer in list(self._peers.items()):
            end = _end(peer)
            if fd in ready:
                self._go_on(fd, peer)
            elif end is not None and now > end:
                self._drop(fd)
        if self._listener.fileno() in ready:
            self._accept(now)

    def publish(self, event: bytes) -> None:
        """Send an event to all streams. Drop peers that have not read all earlier events."""
        for fd, peer in list(self._peers.items()):
            if not peer.is_stream:
                continue
            if peer.unsent + len(event) > UNSENT_BYTES:
                self._drop(fd)
                continue
            if not peer.unsent:
                peer.since = self._clock()
            peer.waiting.append(event)

    def close(self) -> None:
        """Close all sockets."""
        for fd in list(self._peers):
            self._drop(fd)
        self._listener.close()

    def _accept(self, now: float) -> None:
        """Accept one connection. Existing connections are served before the next connection is accepted."""
        others = [fd for fd, peer in self._peers.items() if not peer.is_stream]
        if len(others) >= self._most_peers:
            self._drop(others[0])  # the oldest connection, which was served most often
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the peer has closed the connection, or there is no free descriptor
            return
        sock.setblocking(False)
        self._peers[sock.fileno()] = _Peer(sock, now)

    def _go_on(self, fd: int, peer: _Peer) -> None:
        try:
            if peer.is_stream:
                self._send_events(fd, peer)
                return
            if peer.answer is None and not self._read(peer):
                return
            if peer.answer is not None:
                peer.answer = peer.answer[peer.sock.send(peer.answer):]
        except BlockingIOError:
            return
        except OSError:  # the peer has closed the connection
            self._drop(fd)
            return
        if not peer.answer and not peer.is_stream:
            self._drop(fd)

    def _send_events(self, fd: int, peer: _Peer) -> None:
        try:
            if not peer.sock.recv(_READS):  # further bytes of the peer are ignored
                self._drop(fd)
                return
        except BlockingIOError:
            pass
        if not peer.answer and peer.waiting:
            peer.answer = memoryview(b"".join(peer.waiting))
            peer.waiting = []
        if peer.answer:
            peer.answer = peer.answer[peer.sock.send(peer.answer):]

    def _read(self, peer: _Peer) -> bool:
        """Read from a peer. Return whether the connection is finished, or an answer to the request is ready."""
        came = peer.sock.recv(REQUEST_BYTES + 1 - len(peer.request))
        if not came:
            return True
        peer.request += came
        if _END not in peer.request and len(peer.request) <= REQUEST_BYTES:
            return False
        answer = self._answer(peer.request)
        peer.is_stream = answer.is_stream
        peer.since = self._clock()
        peer.answer = memoryview(_head(answer) + answer.body)
        return True

    def _answer(self, request: bytes) -> Answer:
        found = parsed(request, any_host=not self._is_loopback)
        if not isinstance(found, Request):
            why = "the Host header must be localhost, an IP address or the name of this machine" if found == 403 else (
                "this is no request that the server supports")
            return refusal(found, why)
        answer = self._route(found)
        if answer.is_stream and self.streams >= self._most_streams:
            return refusal(503, "{} streams are open, which is the limit".format(self._most_streams))
        return answer

    def _drop(self, fd: int) -> None:
        peer = self._peers.pop(fd)
        try:
            peer.sock.shutdown(socket.SHUT_WR)  # deliver the answer even if part of the request is unread
            peer.sock.recv(_READS)
        except OSError:
            pass
        peer.sock.close()


def refusal(status: int, why: str, headers: Sequence[str] = ()) -> Answer:
    """Return the answer to a request that is refused. ``why`` is one line of text."""
    return Answer(status, "{} {}: {}\n".format(status, _REASONS[status], why).encode(), PLAIN, tuple(headers))


def parsed(request: bytes, *, any_host: bool = False) -> Union[Request, int]:
    """Parse a request. Return a status code if the request is invalid, for example longer than ``REQUEST_BYTES``.

    Args:
        any_host: whether to accept any Host header.
    """
    if len(request) > REQUEST_BYTES or _END not in request:
        return 431
    try:
        method, target, version = request.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    except ValueError:
        return 400
    if not version.startswith("HTTP/1."):
        return 505 if version.startswith("HTTP/") else 400
    hosts = _hosts(request)
    if len(hosts) > 1:
        return 400
    if not any_host and not all(map(_is_own, hosts)):
        return 403
    path, _, query = target.partition("?")
    return Request(method, path, query)


def _events(peer: _Peer) -> int:
    if peer.is_stream:
        return select.POLLIN | (select.POLLOUT if peer.unsent else 0)
    return select.POLLIN if peer.answer is None else select.POLLOUT


def _end(peer: _Peer) -> Optional[float]:
    """Return the time at which a connection must be closed, or None if there is no time limit."""
    if peer.is_stream:
        return peer.since + PATIENCE_S if peer.unsent else None
    return peer.came + PATIENCE_S


def _head(answer: Answer) -> bytes:
    lines = ["HTTP/1.1 {} {}".format(answer.status, _REASONS[answer.status]),
             "Content-Type: {}".format(answer.content_type), "Connection: close", *answer.headers]
    if not answer.is_stream:
        lines.insert(2, "Content-Length: {}".format(len(answer.body)))
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _hosts(request: bytes) -> List[str]:
    """Return the values of all Host headers."""
    headers = request.split(_END, 1)[0].decode("latin-1").split("\r\n")[1:]
    named = [header.partition(":") for header in headers]
    return [value.strip().lower() for name, _, value in named if name.strip().lower() == "host"]


def _is_own(host: str) -> bool:
    """Return whether a Host header contains a local name or an IP address. In a DNS rebinding attack, the Host header
    contains another name.
    """
    name = _PORT.sub("", host)
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return True
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True
