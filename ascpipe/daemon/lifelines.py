"""Accepts lifelines: one unix stream socket for each trainer, whose end of file means that the trainer is gone.

A forked child of the trainer can keep the socket open, so a pidfd of the process that connected is watched
too.  Order: the trainer connects; we open the pidfd of the peer the kernel names and greet; only then the
trainer sends its token.  So the pidfd is that of the process which sent the token, never of a later one
with its number.

Nothing here waits for a peer: what has come of a token is kept until the rest comes.  Connections that have not
registered are few, and each has ``PATIENCE_S``; where there is no room, the process that has most loses its oldest.
"""
import errno
import os
import socket
import struct
import time
from collections import Counter
from typing import Dict, List, Optional, Sequence

from ascpipe.control import fdsocket
from ascpipe.control.messages import TOKEN_BYTES
from ascpipe.errors import MessageError, PeerRefusedError
from ascpipe.shm import syscalls

MAX_WAITING = 16  #: connections that have not registered yet
PATIENCE_S = 10.0  #: for a connection to register
_TOKEN_MESSAGE_BYTES = 256  #: more than any
_CREDENTIALS = struct.Struct("3i")
_NO_PIDFDS = (errno.ENOSYS, errno.EPERM)  # kernels before 5.3; containers whose seccomp profile does not know the call


class Lifeline:
    """One connection.

    Attributes:
        sock: ours.
        pid: of the peer; 0 if it lives where we cannot see it (another pid namespace).
        token: what it sent, or None.
        pidfd: readable when the peer has ended; -1 where the kernel cannot tell.

    Raises:
        PeerRefusedError: it has ended, or there is no descriptor to watch it by; ``sock`` is still open.
    """

    def __init__(self, sock: socket.socket, pid: int, now: float) -> None:
        self.sock = sock
        self.pid = pid
        self.since = now
        self.token: Optional[bytes] = None
        self._came = b""  # of a message, so far
        self.pidfd = -1
        if pid:
            try:
                self.pidfd = syscalls.pidfd_open(pid)
            except ProcessLookupError:
                raise PeerRefusedError("process {} has ended".format(pid)) from None
            except OSError as error:
                if error.errno not in _NO_PIDFDS:
                    raise PeerRefusedError("process {} cannot be watched: {}".format(pid, error)) from error

    def fds(self) -> List[int]:
        """What to poll."""
        return [self.sock.fileno()] + ([self.pidfd] if self.pidfd >= 0 else [])

    def read(self) -> bool:
        """Take what has come of the message with the token; False: this is no trainer of ours."""
        try:
            piece = self.sock.recv(_TOKEN_MESSAGE_BYTES, socket.MSG_DONTWAIT)  # the kernel closes descriptors with it
            self._came += piece
            if not piece or self.token is not None:
                return False
            body = fdsocket.whole(self._came, _TOKEN_MESSAGE_BYTES)
            if body is None:
                return True
            token = body.get("token")
            if set(body) != {"verb", "token"} or body["verb"] != "trainer":
                return False
            if not isinstance(token, bytes) or len(token) != TOKEN_BYTES:
                return False
            self.token = token
            fdsocket.send(self.sock, {"verb": "known"})
        except BlockingIOError:
            return True
        except (OSError, MessageError):
            return False
        return True

    def close(self) -> None:
        """Idempotent."""
        self.sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class Lifelines:
    """The listening socket and the connections that have not registered yet.

    Args:
        path: of the socket; its directory is ours alone and locked.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(MAX_WAITING)
        self._listener.setblocking(False)
        self._waiting: Dict[int, Lifeline] = {}

    def fds(self) -> List[int]:
        """What to poll."""
        return [self._listener.fileno()] + [fd for line in self._waiting.values() for fd in line.fds()]

    def serve(self, ready: Sequence[int]) -> None:
        """Accept, read tokens, drop connections that are late; ``ready`` are descriptors that poll named."""
        now = time.monotonic()
        for fd, line in list(self._waiting.items()):
            if line.pidfd in ready or now - line.since > PATIENCE_S or (fd in ready and not line.read()):
                self._drop(fd)
        if self._listener.fileno() in ready:
            self._accept(now)

    def take(self, pid: int, token: bytes) -> Lifeline:
        """The connection that sent ``token``; it is the caller's from now on.

        Raises:
            PeerRefusedError: none did, or not from that process.
        """
        for fd, line in self._waiting.items():
            if line.token == token:
                if line.pid not in (0, pid):
                    raise PeerRefusedError("it says pid {}, the kernel says {}".format(pid, line.pid))
                return self._waiting.pop(fd)
        raise PeerRefusedError("no lifeline with this token; connect {} first".format(self._path))

    def close(self) -> None:
        """Close all; the socket file goes with the run directory."""
        for fd in list(self._waiting):
            self._drop(fd)
        self._listener.close()

    def _accept(self, now: float) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it is gone again, or there is no free descriptor: a peer that waits is accepted later
            return
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != os.geteuid():
            sock.close()
            return
        self._make_room()
        try:
            line = Lifeline(sock, pid, now)
        except PeerRefusedError:
            sock.close()
            return
        try:
            fdsocket.send(sock, {"verb": "hello", "pid": os.getpid()})
        except MessageError:
            line.close()
            return
        self._waiting[sock.fileno()] = line

    def _make_room(self) -> None:
        while len(self._waiting) >= MAX_WAITING:
            connections = Counter(line.pid for line in self._waiting.values())
            # the first of them: max keeps the order
            self._drop(max(self._waiting, key=lambda fd: connections[self._waiting[fd].pid]))

    def _drop(self, fd: int) -> None:
        self._waiting.pop(fd).close()
