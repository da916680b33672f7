"""Lifelines of trainers. A lifeline is a unix stream socket whose end of file shows that the trainer has exited.

A forked child of the trainer can keep the socket open, so the daemon also watches a pidfd of the connecting process.
The trainer sends its token only after a greeting, and the daemon opens the pidfd before it sends the greeting. So the
pidfd belongs to the sender of the token and not to a later process with the same PID.

No call blocks on a peer. The number of unregistered connections is limited, and each connection must register within
``PATIENCE_S``. If there are too many, the daemon drops the oldest connection of the process with the most connections.
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

MAX_WAITING = 16  #: maximum number of unregistered connections
PATIENCE_S = 10.0  #: time in which a connection must register
_TOKEN_MESSAGE_BYTES = 256  #: larger than the message
_CREDENTIALS = struct.Struct("3i")
_NO_PIDFDS = (errno.ENOSYS, errno.EPERM)  # errnos of kernels before 5.3 and of seccomp profiles without the call


class Lifeline:
    """Connection of the trainer, or of a process that has not registered as the trainer yet.

    Attributes:
        pid: PID of the peer, or 0 if the peer is in another PID namespace.
        token: token that the peer sent, or None.
        pidfd: descriptor that is readable when the peer has exited, or -1 if the kernel does not support pidfds.

    Raises:
        PeerRefusedError: the peer has exited or cannot be watched. ``sock`` is still open.
    """

    def __init__(self, sock: socket.socket, pid: int, now: float) -> None:
        self.sock = sock
        self.pid = pid
        self.since = now
        self.token: Optional[bytes] = None
        self._received = b""  # received part of the message
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
        """Return the descriptors to poll."""
        return [self.sock.fileno()] + ([self.pidfd] if self.pidfd >= 0 else [])

    def read(self) -> bool:
        """Read the bytes of the token message that have arrived. Return False if the peer is not a valid trainer."""
        try:
            piece = self.sock.recv(_TOKEN_MESSAGE_BYTES, socket.MSG_DONTWAIT)  # the kernel closes any descriptors
            self._received += piece
            if not piece or self.token is not None:
                return False
            body = fdsocket.whole(self._received, _TOKEN_MESSAGE_BYTES)
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
        """Close the socket and the pidfd. Further calls do nothing."""
        self.sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class Lifelines:
    """Listening socket for lifelines, and the connections whose processes have not registered as trainer.

    ``path`` is the path of the socket, in a locked directory that only this user can access.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(MAX_WAITING)
        self._listener.setblocking(False)
        self._waiting: Dict[int, Lifeline] = {}

    def fds(self) -> List[int]:
        """Return the descriptors to poll."""
        return [self._listener.fileno()] + [fd for line in self._waiting.values() for fd in line.fds()]

    def serve(self, ready: Sequence[int]) -> None:
        """Accept connections, read tokens and drop late connections. ``ready`` contains the descriptors that poll
        returned.
        """
        now = time.monotonic()
        for fd, line in list(self._waiting.items()):
            if line.pidfd in ready or now - line.since > PATIENCE_S or (fd in ready and not line.read()):
                self._drop(fd)
        if self._listener.fileno() in ready:
            self._accept(now)

    def take(self, pid: int, token: bytes) -> Lifeline:
        """Return the connection that sent ``token``. The caller must close the connection.

        Raises:
            PeerRefusedError: no connection sent the token, or another process sent it.
        """
        for fd, line in self._waiting.items():
            if line.token == token:
                if line.pid not in (0, pid):
                    raise PeerRefusedError("it reports pid {}, but the kernel reports {}".format(pid, line.pid))
                return self._waiting.pop(fd)
        raise PeerRefusedError("there is no lifeline with this token. Connect {} first".format(self._path))

    def close(self) -> None:
        """Close all connections. The socket file is removed with the run directory."""
        for fd in list(self._waiting):
            self._drop(fd)
        self._listener.close()

    def _accept(self, now: float) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the peer closed the connection, or no descriptor is free and a later call accepts it
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
            # max returns the first maximum, which is the oldest connection
            self._drop(max(self._waiting, key=lambda fd: connections[self._waiting[fd].pid]))

    def _drop(self, fd: int) -> None:
        self._waiting.pop(fd).close()
