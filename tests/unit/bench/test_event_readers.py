"""Readers of events count the events of all streams, also if an event arrives in pieces."""
import contextlib
import select
import socket
import threading

import pytest

from bench.event_readers import Readers

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@contextlib.contextmanager
def served(count, first):
    """Yield an address, and the server's sockets of ``count`` streams. Each stream begins with ``first``."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(count)
    streams = []

    def accept():
        for _ in range(count):
            streams.append(listener.accept()[0])
            assert streams[-1].recv(1000).startswith(b"GET /events?token=abc HTTP/1.1\r\nHost: 127.0.0.1:")
            streams[-1].sendall(HEAD + first)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield "http://127.0.0.1:{}/?token=abc".format(listener.getsockname()[1]), streams
    finally:
        thread.join()
        for sock in [listener, *streams]:
            sock.close()


def received(readers):
    readers.read(select.select(readers.sockets(), [], [], 10)[0])
    return readers.received


def test_the_events_of_all_streams_are_counted():
    with served(3, b"data: 1\n\n") as (address, streams):
        readers = Readers(address)
        readers.open(3)
        assert readers.received == 3 and len(readers.sockets()) == 3
        streams[1].sendall(b"data: 2\n\ndata: 3\n")
        assert received(readers) == 4
        streams[1].sendall(b"\n")
        assert received(readers) == 5
        readers.close()
        assert readers.sockets() == [] and streams[0].recv(10) == b""


def test_a_stream_that_the_server_closes_is_an_error():
    with served(1, b"data: 1\n\n") as (address, streams):
        readers = Readers(address)
        readers.open(1)
        streams[0].close()
        with pytest.raises(RuntimeError, match="closed a stream after 1 events"):
            received(readers)
        readers.close()
