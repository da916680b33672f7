"""Messages with file descriptors over a unix stream socket.

A message consists of its length (u32, little-endian) and a msgpack map. Descriptors are sent with the first
byte. The socket is also the lifeline between two processes: end of file means that the peer has exited or closed it.
"""
import array
import os
import select
import socket
import struct
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ascpipe.control import codec
from ascpipe.errors import ConnectionClosedError, MessageError, MessageTimeoutError

MAX_FDS = 250  #: per message; the kernel allows 253

_LENGTH = struct.Struct("<I")
_TIMEVAL = struct.Struct("@ll")
_FD_BYTES = array.array("i").itemsize
ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_FDS * _FD_BYTES)  #: size of the ``recvmsg`` buffer for descriptors
_SEND_TIMEOUT_S = 10.0
_REST_S = 0.2  # maximum wait for the remaining bytes of a message after its first byte
_LONGEST_POLL_S = 3600.0  # the argument of poll is a 32-bit number of milliseconds


def connect(sock: socket.socket, path: str, timeout_s: float) -> None:
    """Connect a unix socket to ``path``. The call blocks while the listen queue is full.

    Raises:
        BlockingIOError: the queue was full for ``timeout_s``.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(timeout_s), int(timeout_s % 1 * 1e6)))
    sock.connect(path)


def send(sock: socket.socket, body: Dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message with file descriptors. The descriptors stay open in this process. The call blocks for at most 10
    s.

    Raises:
        ConnectionClosedError: the peer has closed the connection.
        MessageTimeoutError: the peer did not read the whole message in time.
        MessageError: the message is too long or has too many descriptors.
    """
    if len(fds) > MAX_FDS:
        raise MessageError("a message has {} descriptors; at most {} can be sent".format(len(fds), MAX_FDS))
    data = codec.pack(body)
    data = _LENGTH.pack(len(data)) + data
    ancillary = rights(fds)
    deadline = time.monotonic() + _SEND_TIMEOUT_S
    try:
        while data:
            _wait(sock, deadline, for_reading=False)
            try:
                sent = sock.sendmsg([data], ancillary, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                continue
            data = data[sent:]
            ancillary = []
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ConnectionClosedError("the other process") from error


def rights(fds: Sequence[int]) -> List[Tuple[int, int, "array.array[int]"]]:
    """Return the ancillary data for ``sendmsg`` that sends file descriptors."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []


def descriptors(ancillary: Sequence[Tuple[int, int, bytes]]) -> List[int]:
    """Return the file descriptors in the ancillary data that ``recvmsg`` has returned."""
    found = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[:len(content) - len(content) % _FD_BYTES])
    return found.tolist()


def receive(sock: socket.socket, timeout_s: float) -> Tuple[Dict[str, Any], List[int]]:
    """Receive one message and its file descriptors. The descriptors are not inheritable. The caller must close the
    descriptors.

    The stream is unusable after an error, except after a MessageTimeoutError before the first byte.

    Raises:
        ConnectionClosedError: the peer has closed the connection.
        MessageTimeoutError: no complete message arrived within ``timeout_s``.
        MessageError: the message is invalid.
    """
    fds: List[int] = []
    deadline = time.monotonic() + timeout_s
    try:
        (length,) = _LENGTH.unpack(_read(sock, _LENGTH.size, deadline, fds))
        if length > codec.MESSAGE_BYTES:
            raise MessageError("it announces {} bytes; at most {} are accepted".format(length, codec.MESSAGE_BYTES))
        return codec.unpack(_read(sock, length, deadline, fds)), fds
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def whole(data: bytes, most: int) -> Optional[Dict[str, Any]]:
    """Decode a message from the bytes read so far. Return None if the message is incomplete.

    Raises:
        MessageError: the message is invalid or has more than ``most`` bytes, or more bytes follow.
    """
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    if max(length, len(data) - _LENGTH.size) > most:
        raise MessageError("it announces {} bytes; at most {} are accepted".format(length, most))
    return codec.unpack(data[_LENGTH.size:]) if len(data) - _LENGTH.size >= length else None


def receive_body(sock: socket.socket, timeout_s: float) -> Dict[str, Any]:
    """Receive a message like ``receive``, close the received file descriptors, and return the body."""
    body, fds = receive(sock, timeout_s)
    for fd in fds:
        os.close(fd)
    return body


def receive_if_available(sock: socket.socket) -> Dict[str, Any]:
    """Receive a message whose first byte has arrived. Raise MessageTimeoutError immediately if no byte has arrived."""
    return receive_body(sock, _REST_S if is_readable(sock) else 0.0)


def is_readable(sock: socket.socket) -> bool:
    """Return True if bytes or the end of file can be read from the socket."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def is_closed(sock: socket.socket) -> bool:
    """Return True if the peer has closed the connection. The call does not block and does not consume data."""
    try:
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except (BlockingIOError, InterruptedError):
        return False
    except (ConnectionResetError, BrokenPipeError):
        return True


def _read(sock: socket.socket, size: int, deadline: float, fds: List[int]) -> bytes:
    data = b""
    while len(data) < size:
        _wait(sock, deadline, for_reading=True)
        try:
            piece, ancillary, flags, _ = sock.recvmsg(
                size - len(data), ANCILLARY_BYTES, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            continue
        except ConnectionResetError as error:
            raise ConnectionClosedError("the other process") from error
        fds.extend(descriptors(ancillary))
        if flags & socket.MSG_CTRUNC:
            raise MessageError("descriptors were lost (limit of open files?)")
        if not piece:
            raise ConnectionClosedError("the other process")
        data += piece
    return data


def _wait(sock: socket.socket, deadline: float, *, for_reading: bool) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLIN if for_reading else select.POLLOUT)
    while not poll.poll(1000.0 * max(0.0, min(_LONGEST_POLL_S, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            raise MessageTimeoutError("the other process", "did not send or receive a message in time")
