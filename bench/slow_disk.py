"""Disk with configurable latency and faults, for tests: a file system in user space over /dev/fuse, without a library.

The disk has one directory. The files are in the memory of a separate process, which exits with the process that mounted
the disk. The separate process is necessary because the kernel needs answers while the mounting process exits. Mounting
needs root and a separate mount namespace (``unshare -m``).
"""
import ctypes
import errno
import heapq
import mmap
import os
import select
import signal
import stat
import struct
import time
from typing import Any, Dict, List, Tuple, Union

import numpy as np

LOOKUP = 1
FORGET = 2
GETATTR = 3
SETATTR = 4
UNLINK = 10
OPEN = 14
READ = 15
WRITE = 16
STATFS = 17
RELEASE = 18
FSYNC = 20
FLUSH = 25
INIT = 26
INTERRUPT = 36
CREATE = 35
DESTROY = 38
BATCH_FORGET = 42
WITHOUT_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)

_ROOT = 1
_HEADER = struct.Struct("<IIQQIIII")  # length, operation, unique, node, and three ids
_ANSWER = struct.Struct("<IiQ")
_MAX_WRITE = 256 << 10
_MAX_PAGES = 1 << 22  # flag that enables max_pages
_SETS_SIZE = 8
_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.002
_IDLE_S = 1.0

#: memory that both processes share
_CONTROL = np.dtype([(name, "<i8") for name in ("delay_ms", "error", "read_error", "short", "held", "files", "names")])


class SlowDisk:
    """Disk that is mounted until the process has exited.

    Args:
        path: empty directory.

    Attributes:
        control: shared settings and counters. ``delay_ms`` is the duration of a read or write. If ``held`` is 1, reads
            and writes never complete. ``error`` is the errno of all reads and writes, or 0. ``read_error`` is the errno
            of reads only. ``short`` is the number of bytes by which writes are too short. ``files`` is the number of
            created files, and ``names`` is the number of names in the directory.
    """

    def __init__(self, path: Any) -> None:
        self.control = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), _CONTROL, 1)[0]
        self._names: Dict[bytes, int] = {}  # node by name
        self._files: Dict[int, bytearray] = {}  # content by node
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = "fd={},rootmode=40000,user_id=0,group_id=0".format(self._fd)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"slow_disk", str(path).encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        if os.fork() == 0:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            try:
                self._serve()
            finally:
                os._exit(0)
        os.close(self._fd)

    def _serve(self) -> None:
        """Serve the requests with one thread. Delays use no processor time, so that measured processes are not
        disturbed.
        """
        os.set_blocking(self._fd, False)
        room = memoryview(bytearray(_MAX_WRITE + 8192))
        under_way: List[Tuple[float, int, int, int, bytes]] = []  # heap by time of the answer
        while True:
            select.select([self._fd], [], [], self._wait_s(under_way))
            try:
                size = os.readv(self._fd, [room])
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOENT):  # ENOENT = interrupted
                    return  # ENODEV = unmounted
            else:
                _, operation, unique, node, *_ = _HEADER.unpack_from(room)
                body = bytes(room[_HEADER.size:size])
                if operation in (READ, WRITE):
                    due_s = time.monotonic() + int(self.control["delay_ms"]) / 1000
                    heapq.heappush(under_way, (due_s, unique, operation, node, body))
                elif operation not in WITHOUT_ANSWER:
                    self._answer(unique, self._control(operation, node, body))
            while under_way and not self.control["held"] and under_way[0][0] <= time.monotonic():
                _, unique, operation, node, body = heapq.heappop(under_way)
                self._transfer(operation, unique, node, body)

    def _wait_s(self, under_way: List[Tuple[float, int, int, int, bytes]]) -> float:
        if not under_way:
            return _IDLE_S
        if self.control["held"]:
            return _LOOK_S
        return max(0.0, under_way[0][0] - time.monotonic())

    def _answer(self, unique: int, answer: Union[bytes, int]) -> None:
        """Send bytes or an errno as the answer."""
        code, content = (0, answer) if isinstance(answer, bytes) else (-answer, b"")
        os.write(self._fd, _ANSWER.pack(_ANSWER.size + len(content), code, unique) + content)

    def _transfer(self, operation: int, unique: int, node: int, body: bytes) -> None:
        _, offset, size = struct.unpack_from("<QQI", body)
        content = self._files[node]
        error = int(self.control["error"]) or operation == READ and int(self.control["read_error"])
        if error:
            self._answer(unique, error)
        elif operation == READ:
            self._answer(unique, bytes(content[offset:offset + size]))
        else:
            size -= int(self.control["short"])
            if len(content) < offset + size:
                content.extend(bytes(offset + size - len(content)))
            content[offset:offset + size] = body[40:40 + size]
            self._answer(unique, struct.pack("<II", size, 0))

    def _control(self, operation: int, node: int, body: bytes) -> Union[bytes, int]:
        if operation == INIT:
            return struct.pack("<IIIIHHIIHH32x", 7, 31, 0, _MAX_PAGES, 64, 48, _MAX_WRITE, 1, _MAX_WRITE // 4096, 0)
        if operation == CREATE:
            name = body[16:].rstrip(b"\0")
            new = _ROOT + 1 + len(self._files)
            self._files[new] = bytearray()
            self._names[name] = new
            self.control["files"] = len(self._files)
            self.control["names"] = len(self._names)
            return self._entry(new) + struct.pack("<QII", new, 0, 0)
        if operation == LOOKUP:
            known = self._names.get(body.rstrip(b"\0"))
            return errno.ENOENT if known is None else self._entry(known)
        if operation == UNLINK:
            known = self._names.pop(body.rstrip(b"\0"), None)
            self.control["names"] = len(self._names)
            return errno.ENOENT if known is None else b""
        if operation == SETATTR:
            valid, _, _, size = struct.unpack_from("<IIQQ", body)
            if valid & _SETS_SIZE:
                content = self._files[node]
                del content[size:]
                content.extend(bytes(size - len(content)))
        if operation in (GETATTR, SETATTR):
            return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if operation == STATFS:
            return struct.pack("<QQQQQIII28x", 1 << 20, 1 << 20, 1 << 20, 9, 9, 4096, 255, 4096)
        if operation == OPEN:
            return struct.pack("<QII", node, 0, 0)
        if operation in (RELEASE, FLUSH, FSYNC, DESTROY):
            return b""
        return errno.ENOSYS  # O_TMPFILE, fallocate and others; the kernel converts this to EOPNOTSUPP

    def _entry(self, node: int) -> bytes:
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        size = 0 if node == _ROOT else len(self._files[node])
        mode = stat.S_IFDIR | 0o700 if node == _ROOT else stat.S_IFREG | 0o600
        return struct.pack("<QQQ36xIIIIIII", node, size, size // 512, mode, 1, 0, 0, 0, 4096, 0)
