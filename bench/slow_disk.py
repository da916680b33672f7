"""A disk that is as slow, or as faulty, as a test says: a file system in user space, over /dev/fuse and nothing else.

It has one directory, and files in memory of a process of its own, which ends with the one that mounted it: while that
one ends, the kernel asks for answers. Only root may mount it, in a namespace of its own (``unshare -m``).
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
_MAX_PAGES = 1 << 22  # the flag that lets max_pages count
_SETS_SIZE = 8
_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.002
_IDLE_S = 1.0

#: what both processes know
_CONTROL = np.dtype([(name, "<i8") for name in ("delay_ms", "error", "read_error", "short", "held", "files", "names")])


class SlowDisk:
    """Mounted until the process has ended.

    Args:
        path: an empty directory.

    Attributes:
        control: ``delay_ms``: how long a read or write takes; ``held``: 1 = it takes for ever; ``error``: errno of all
            reads and writes, 0 = none; ``read_error``: of reads alone; ``short``: bytes that writes store less than
            they are asked to; ``files``: made so far; ``names``: that a directory would list.
    """

    def __init__(self, path: Any) -> None:
        self.control = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), _CONTROL, 1)[0]
        self._names: Dict[bytes, int] = {}  # by name: node
        self._files: Dict[int, bytearray] = {}  # by node: content
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
        """One thread: a disk takes time, and no processor from the processes that it is measured with."""
        os.set_blocking(self._fd, False)
        room = memoryview(bytearray(_MAX_WRITE + 8192))
        under_way: List[Tuple[float, int, int, int, bytes]] = []  # by the time of the answer
        while True:
            select.select([self._fd], [], [], self._wait_s(under_way))
            try:
                size = os.readv(self._fd, [room])
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOENT):  # ENOENT: interrupted
                    return  # ENODEV: unmounted
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
        """Bytes, or an errno."""
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
        return errno.ENOSYS  # O_TMPFILE, fallocate and others: the kernel then says EOPNOTSUPP

    def _entry(self, node: int) -> bytes:
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        size = 0 if node == _ROOT else len(self._files[node])
        mode = stat.S_IFDIR | 0o700 if node == _ROOT else stat.S_IFREG | 0o600
        return struct.pack("<QQQ36xIIIIIII", node, size, size // 512, mode, 1, 0, 0, 0, 4096, 0)
