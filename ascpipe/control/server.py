"""Server of the control plane, which listens on a SOCK_SEQPACKET unix socket. Each connection carries one request.

Requests wait in the kernel until the daemon reads them, and their memory is charged to the senders (ADR 46). The memory
and work that all peers can cause together are bounded:

- There are few connections.
- Messages are read one at a time, and messages of dead peers are not read.
- Only the trainer may send more than ``codec.MAX_VALUES_SHORT`` values.

An invalid request is counted and answered with an error. It raises no exception.
"""
import os
import select
import socket
import struct
import time
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascpipe.control import codec, fdsocket, messages
from ascpipe.control.fdsocket import is_readable
from ascpipe.errors import AscpipeError, MessageError

MAX_PEERS = 4  #: maximum number of open connections; the same number can wait to be accepted
PATIENCE_S = 10.0  #: maximum time to wait for the request of a connection
TURN_S = 0.02  #: a call of ``Server.requests`` ends after the first request that exceeds this time
_ACCEPTS_PER_TURN = 200
_CREDENTIALS = struct.Struct("3i")
_GONE = select.POLLHUP | select.POLLERR

Peer = socket.socket


class _Arrival(NamedTuple):
    """Time at which a peer connected, and the peer's PID. The PID is 0 if the peer is in another PID namespace."""

    at: float
    pid: int


class Server:
    """Server that receives requests and sends replies. Its methods never block.

    Args:
        path: path of the socket, in a locked directory that only this user can access.
        clock: function that returns the time in seconds.

    Raises:
        OSError: the socket cannot be created.

    Attributes:
        dropped: number of connections closed without a reply, for example because the peer sent no request in time.
        refused: number of invalid messages that were answered with an error.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self.refused = 0
        self._clock = clock
        self._peers: Dict[Peer, _Arrival] = {}  # oldest first
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(path)
        self._listener.listen(MAX_PEERS)

    def fds(self) -> List[int]:
        """Return the descriptors to poll."""
        return [self._listener.fileno(), *(peer.fileno() for peer in self._peers)]

    def requests(self, trainer: Optional[int] = None) -> Iterator[Tuple[Peer, messages.Request]]:
        """Yield (peer, request) for pending requests, oldest first, and stop after about ``TURN_S`` seconds. The caller
        must answer each request.

        Args:
            trainer: PID of the process that may send more than ``codec.MAX_VALUES_SHORT`` values. The PID is
                0 if the process is in another PID namespace.
        """
        end = self._clock() + TURN_S
        self._accept()
        for peer, came in list(self._peers.items()):
            events = _events(peer)
            if events & _GONE or not events and self._clock() - came.at > PATIENCE_S:
                self._drop(peer)
            elif events and self._clock() <= end:
                request = self._read(peer, codec.MAX_VALUES if came.pid == trainer else codec.MAX_VALUES_SHORT)
                if request is not None:
                    yield peer, request

    def reply(self, peer: Peer, request_id: int, body: Mapping[str, object], fds: Sequence[int] = ()) -> None:
        """Send a reply with file descriptors. The descriptors stay open in this process.

        The function raises no error if the peer has closed its connection.
        """
        self._send(peer, messages.reply_bytes(request_id, body), fds)

    def refuse(self, peer: Peer, request_id: int, error: AscpipeError) -> None:
        """Reply to a request with an error."""
        self._send(peer, messages.error_bytes(request_id, error))

    def close(self) -> None:
        """Close the socket. Peers can still read replies that were sent. The socket file stays in the run directory."""
        for peer in self._peers:
            peer.close()
        self._peers.clear()
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not is_readable(self._listener) or len(self._peers) >= MAX_PEERS and not self._make_room():
                return
            try:
                peer, _ = self._listener.accept()
            except OSError:  # the peer closed the connection, or no descriptor is free and a later call accepts it
                return
            peer.setblocking(False)
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _ = _CREDENTIALS.unpack(credentials)
            self._peers[peer] = _Arrival(self._clock(), pid)
            if uid != os.geteuid() or _events(peer) & _GONE:
                self._drop(peer)

    def _make_room(self) -> bool:
        """Drop the oldest peer that has sent no request, and return True. Return False if all peers have sent a
        request.
        """
        for peer in self._peers:
            if _events(peer) != select.POLLIN:
                self._drop(peer)
                return True
        return False

    def _read(self, peer: Peer, most_values: int) -> Optional[messages.Request]:
        try:
            return messages.parse_request(peer.recv(codec.MESSAGE_BYTES + 1), most_values)
        except OSError:
            self._drop(peer)
        except MessageError as error:
            self.refused += 1
            self.refuse(peer, 0, error)
        return None

    def _send(self, peer: Peer, data: bytes, fds: Sequence[int] = ()) -> None:
        try:
            peer.sendmsg([data], fdsocket.rights(fds), socket.MSG_NOSIGNAL)
        except OSError:  # the peer has closed the connection
            self.dropped += 1
        del self._peers[peer]
        peer.close()

    def _drop(self, peer: Peer) -> None:
        self.dropped += 1
        del self._peers[peer]
        peer.close()


def _events(peer: Peer) -> int:
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    return sum(events for _, events in poll.poll(0))
