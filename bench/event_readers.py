"""Program that reads the events of a dashboard: `python -m bench.event_readers ADDRESS COUNT`.

A line of its input is ``open``, ``close`` or ``count``. ``open`` opens COUNT streams and waits for the first event of
each stream. The answer to each line is the number of events that were received. The program exits at the end of the
input.
"""
import select
import socket
import sys
import urllib.parse
from typing import Dict, List

_BYTES = 1 << 18
_EVENT = b"\n\n"


def opened(address: str) -> socket.socket:
    """Return a connection that has requested the events.

    Args:
        address: address of the page, with its token.
    """
    page = urllib.parse.urlsplit(address)
    sock = socket.create_connection((page.hostname or "", page.port or 0), 30)
    sock.sendall("GET /events?{} HTTP/1.1\r\nHost: {}\r\n\r\n".format(page.query, page.netloc).encode())
    return sock


class Readers:
    """Open streams.

    Args:
        address: address of the page, with its token.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._counts: Dict[socket.socket, int] = {}
        self._ends: Dict[socket.socket, bytes] = {}  # last byte of each stream
        self.received = 0

    def open(self, count: int) -> None:
        """Open streams, and wait for the first event of each stream."""
        self._counts = {opened(self._address): 0 for _ in range(count)}
        self._ends = dict.fromkeys(self._counts, b"")
        while not all(self._counts.values()):
            self.read(select.select(list(self._counts), [], [], 30)[0])

    def close(self) -> None:
        """Close all streams."""
        for sock in self._counts:
            sock.close()
        self._counts = {}
        self._ends = {}

    def sockets(self) -> List[socket.socket]:
        """Return the sockets of the streams."""
        return list(self._counts)

    def read(self, ready: List[socket.socket]) -> None:
        """Read from streams that are ready.

        Raises:
            RuntimeError: the server has closed a stream, or no stream is ready.
        """
        if not ready:
            raise RuntimeError("no stream received an event")
        for sock in ready:
            came = sock.recv(_BYTES)
            if not came:
                raise RuntimeError("the server closed a stream after {} events".format(self._counts[sock]))
            found = (self._ends[sock] + came).count(_EVENT)  # the head of the answer has no two \n in a row
            self._ends[sock] = came[-1:]
            self._counts[sock] += found
            self.received += found


def main(arguments: List[str]) -> None:
    """Read until the end of the input."""
    readers = Readers(arguments[0])
    while True:
        ready = select.select([sys.stdin, *readers.sockets()], [], [])[0]
        if sys.stdin not in ready:
            readers.read(ready)
            continue
        word = sys.stdin.readline().strip()
        if word in ("open", "close", ""):
            readers.close()
        if word == "open":
            readers.open(int(arguments[1]))
        if not word:
            return
        print(readers.received, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
