"""Server of the control plane: a zmq ROUTER on a unix socket.

Whatever arrives, nothing is raised: what is not a request is counted, and answered by an error.
"""
import collections
import os
import time
from typing import Any, Callable, Counter, Iterator, Mapping, Tuple

import zmq

from ascpipe.control import codec, messages
from ascpipe.errors import AscpipeError, MessageError

MAX_FRAMES = 4
REQUESTS_PER_S = 1000  #: of one peer; what is above is dropped
_QUEUE = 1000
_REQUESTS_PER_TURN = 100


class Server:
    """Receives requests and sends replies; never blocks.

    Args:
        endpoint: ``ipc://...`` in a directory that is ours alone.  A zmq bind takes over the socket of a
            running daemon without a word: hold the run directory's lock.
        clock: seconds; counts the second in which a peer sends too much.

    Raises:
        OSError: the socket cannot be made.

    Attributes:
        dropped: messages without a reply: above the rate, or not even framed.
        refused: messages answered by an error because they are not in the schema.
    """

    def __init__(self, endpoint: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self.refused = 0
        self._context = zmq.Context()
        self.socket: zmq.Socket = self._context.socket(zmq.ROUTER)
        for option, value in ((zmq.LINGER, 0), (zmq.RCVHWM, _QUEUE), (zmq.SNDHWM, _QUEUE),
                              (zmq.MAXMSGSIZE, codec.MESSAGE_BYTES), (zmq.IPC_FILTER_UID, os.geteuid())):
            self.socket.setsockopt(option, value)
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            number = error.errno or 0
            raise OSError(number, os.strerror(number), endpoint.replace("ipc://", "", 1)) from error
        self._clock = clock
        self._second = 0
        self._counts: Counter[bytes] = collections.Counter()

    def requests(self) -> Iterator[Tuple[bytes, messages.Request]]:
        """(peer, request) for what is there now, at most a hundred."""
        for _ in range(_REQUESTS_PER_TURN):
            try:
                peer, *frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if self._is_flooding(peer) or len(frames) > MAX_FRAMES:
                self.dropped += 1
                continue
            try:
                if len(frames) != 1:
                    raise MessageError("it has {} parts, expected 1".format(len(frames)))
                request = messages.parse_request(frames[0])
            except MessageError as error:
                self.refused += 1
                self.refuse(peer, 0, error)
                continue
            yield peer, request

    def reply(self, peer: bytes, request_id: int, body: Mapping[str, Any]) -> None:
        """Answer; a peer that is gone or does not read is no concern of ours."""
        self._send(peer, messages.reply_bytes(request_id, body))

    def refuse(self, peer: bytes, request_id: int, error: AscpipeError) -> None:
        """Answer by an error."""
        self._send(peer, messages.error_bytes(request_id, error))

    def close(self) -> None:
        """Close the socket and remove its file; answers that were not read yet are lost."""
        self.socket.close(0)
        self._context.term()

    def flush(self, seconds: float) -> None:
        """Close as ``close``, but give answers that are on their way up to ``seconds``."""
        self.socket.close(int(seconds * 1000))
        self._context.term()

    def _send(self, peer: bytes, data: bytes) -> None:
        try:
            self.socket.send_multipart([peer, data], zmq.NOBLOCK)
        except zmq.Again:
            self.dropped += 1

    def _is_flooding(self, peer: bytes) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._counts.clear()
        self._counts[peer] += 1
        return self._counts[peer] > REQUESTS_PER_S
