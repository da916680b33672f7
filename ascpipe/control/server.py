"""Server of the control plane: a unix socket of whole messages (SOCK_SEQPACKET); a connection has one request.

What peers have sent waits in the kernel, at their cost, until its turn has come: connections are few, one message is
read at a time, and what a peer that has gone had sent is not read at all.  Only the trainer has much to say: its
streams and tables; what others send is refused after ``codec.FEW_VALUES``.  So memory and work that peers cause are
bounded for all of them together.  Whatever arrives, nothing is raised: what is not a request is counted, and answered
by an error.
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

MAX_PEERS = 4  #: connections at once, and as many that wait to be accepted
PATIENCE_S = 10.0  #: for the request of a connection
TURN_S = 0.02  #: a turn ends with the request that is answered then
_ACCEPTS_PER_TURN = 200
_CREDENTIALS = struct.Struct("3i")
_GONE = select.POLLHUP | select.POLLERR

Peer = socket.socket


class _Came(NamedTuple):
    """When a peer came, and its process: 0 where that cannot be seen, in another pid namespace."""

    at: float
    pid: int


class Server:
    """Receives requests and sends replies; never blocks.

    Args:
        path: of the socket, in a directory that is ours alone and locked.
        clock: seconds.

    Raises:
        OSError: the socket cannot be made.

    Attributes:
        dropped: connections that were closed without an answer: the peer had gone, or sent nothing for too long.
        refused: messages answered by an error because they are not in the schema.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self.refused = 0
        self._clock = clock
        self._peers: Dict[Peer, _Came] = {}  # the oldest first
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(path)
        self._listener.listen(MAX_PEERS)

    def fds(self) -> List[int]:
        """What to poll."""
        return [self._listener.fileno(), *(peer.fileno() for peer in self._peers)]

    def requests(self, trainer: Optional[int] = None) -> Iterator[Tuple[Peer, messages.Request]]:
        """(peer, request) for what is there now, the oldest first, for about ``TURN_S``; each is to be answered.

        Args:
            trainer: the process whose requests may have more than ``codec.FEW_VALUES``, 0 if it cannot be seen.
        """
        end = self._clock() + TURN_S
        self._accept()
        for peer, came in list(self._peers.items()):
            events = _events(peer)
            if events & _GONE or not events and self._clock() - came.at > PATIENCE_S:
                self._drop(peer)
            elif events and self._clock() <= end:
                request = self._read(peer, codec.MAX_VALUES if came.pid == trainer else codec.FEW_VALUES)
                if request is not None:
                    yield peer, request

    def reply(self, peer: Peer, request_id: int, body: Mapping[str, object], fds: Sequence[int] = ()) -> None:
        """Answer, with descriptors, which stay open on our side; a peer that is gone is no concern of ours."""
        self._send(peer, messages.reply_bytes(request_id, body), fds)

    def refuse(self, peer: Peer, request_id: int, error: AscpipeError) -> None:
        """Answer by an error."""
        self._send(peer, messages.error_bytes(request_id, error))

    def close(self) -> None:
        """Close the socket; answers that were sent can still be read. Its file goes with the run directory."""
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
            except OSError:  # it is gone again, or there is no free descriptor: a peer that waits is accepted later
                return
            peer.setblocking(False)
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _ = _CREDENTIALS.unpack(credentials)
            self._peers[peer] = _Came(self._clock(), pid)
            if uid != os.geteuid() or _events(peer) & _GONE:
                self._drop(peer)

    def _make_room(self) -> bool:
        """Drop the oldest connection without a request, if there is one: it may come again."""
        for peer in self._peers:
            if _events(peer) != select.POLLIN:
                self._drop(peer)
                return True
        return False

    def _read(self, peer: Peer, most_values: int) -> Optional[messages.Request]:
        """The request of a peer, or None if it was refused."""
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
        except OSError:  # it has gone
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
