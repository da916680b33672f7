"""HTTP server that supports only ``GET /metrics``, with limits on connections, bytes and time.

One thread serves all peers and never blocks, so slow peers do not delay other peers. Memory and work are
bounded. A connection has one request and one answer.

On a loopback address, the Host header of a request must name this machine. Otherwise, a page in a browser could read
the metrics through a domain name that resolves to 127.0.0.1 (DNS rebinding).
"""
import ipaddress
import re
import select
import socket
import time
from typing import Callable, Dict, List, Optional, Tuple

PATH = "/metrics"
MAX_PEERS = 8  #: maximum number of connections, and maximum number of connections that wait to be accepted
REQUEST_BYTES = 8192  #: maximum size of a request with its headers
PATIENCE_S = 5.0  #: maximum duration of a connection

_END = b"\r\n\r\n"
_READS = 65536
_PLAIN = "text/plain; charset=utf-8"
_PORT = re.compile(r":[0-9]*\Z")
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            431: "Request Header Fields Too Large", 505: "HTTP Version Not Supported"}


class _Peer:
    """Connection with received bytes and unsent bytes of the answer. ``answer`` is None if there is no answer yet."""

    def __init__(self, sock: socket.socket, came: float) -> None:
        self.sock = sock
        self.came = came
        self.request = b""
        self.answer: Optional[memoryview] = None


class Scrapes:
    """Server that answers HTTP requests on a listening socket.

    Args:
        listener: listening socket, which ``close`` closes.
        content: function that returns the body of a successful answer.
        content_type: content type of the body.
        clock: function that returns seconds.
    """

    def __init__(self, listener: socket.socket, content: Callable[[], bytes], content_type: str,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._content = content
        self._content_type = content_type
        self._clock = clock
        self._listener.setblocking(False)
        self._is_loopback = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        self._peers: Dict[int, _Peer] = {}  # by descriptor, oldest first

    def events(self) -> List[Tuple[int, int]]:
        """Return (descriptor, poll events) for each socket."""
        return [(self._listener.fileno(), select.POLLIN)] + [
            (fd, select.POLLIN if peer.answer is None else select.POLLOUT) for fd, peer in self._peers.items()]

    def wait_s(self) -> Optional[float]:
        """Return the seconds until a connection times out, or None if there is no connection."""
        return None if not self._peers else max(
            0.0, min(peer.came for peer in self._peers.values()) + PATIENCE_S - self._clock())

    def serve(self, ready: Dict[int, int]) -> None:
        """Serve ready sockets without blocking.

        Args:
            ready: result of ``poll``, by descriptor.
        """
        now = self._clock()
        for fd, peer in list(self._peers.items()):
            if fd in ready:
                self._go_on(fd, peer)
            elif now - peer.came > PATIENCE_S:
                self._drop(fd)
        if self._listener.fileno() in ready:
            self._accept(now)

    def close(self) -> None:
        """Close all sockets."""
        for fd in list(self._peers):
            self._drop(fd)
        self._listener.close()

    def _accept(self, now: float) -> None:
        """Accept one connection. Existing connections are served before the next connection is accepted."""
        if len(self._peers) >= MAX_PEERS:
            self._drop(next(iter(self._peers)))  # the oldest connection, which was served most often
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the peer has closed the connection, or there is no free descriptor
            return
        sock.setblocking(False)
        self._peers[sock.fileno()] = _Peer(sock, now)

    def _go_on(self, fd: int, peer: _Peer) -> None:
        try:
            if peer.answer is None and not self._read(peer):
                return
            if peer.answer is not None:
                peer.answer = peer.answer[peer.sock.send(peer.answer):]
        except BlockingIOError:
            return
        except OSError:  # the peer has closed the connection
            self._drop(fd)
            return
        if not peer.answer:
            self._drop(fd)

    def _read(self, peer: _Peer) -> bool:
        """Read from a peer. Return whether the connection is finished or has an answer."""
        came = peer.sock.recv(REQUEST_BYTES + 1 - len(peer.request))
        if not came:
            return True
        peer.request += came
        if _END not in peer.request and len(peer.request) <= REQUEST_BYTES:
            return False
        peer.answer = memoryview(self._answer(peer.request))
        return True

    def _answer(self, request: bytes) -> bytes:
        status = status_of(request, any_host=not self._is_loopback)
        content_type = _PLAIN
        more = ""
        if status == 200:
            body = self._content()
            content_type = self._content_type
        else:
            why = "only GET {} is supported".format(PATH) if status != 403 else (
                "the Host header must be localhost, an IP address or the name of this machine")
            body = "{} {}: {}\n".format(status, _REASONS[status], why).encode()
        if status == 405:
            more = "Allow: GET\r\n"
        head = "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n".format(
            status, _REASONS[status], content_type, len(body), more)
        return head.encode() + body

    def _drop(self, fd: int) -> None:
        peer = self._peers.pop(fd)
        try:
            peer.sock.shutdown(socket.SHUT_WR)  # deliver the answer even if part of the request is unread
            peer.sock.recv(_READS)
        except OSError:
            pass
        peer.sock.close()


def status_of(request: bytes, *, any_host: bool = False) -> int:
    """Return the HTTP status code for a request. The request is complete, or longer than ``REQUEST_BYTES``.

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
    if target.split("?", 1)[0] != PATH:
        return 404
    return 200 if method == "GET" else 405


def _hosts(request: bytes) -> List[str]:
    """Return the values of all Host headers."""
    headers = request.split(_END, 1)[0].decode("latin-1").split("\r\n")[1:]
    named = [header.partition(":") for header in headers]
    return [value.strip().lower() for name, _, value in named if name.strip().lower() == "host"]


def _is_own(host: str) -> bool:
    """Return whether a Host header contains a local name or an IP address. DNS rebinding cannot use such names."""
    name = _PORT.sub("", host)
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return True
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True
