"""Log of the keys that were evicted or deleted, with one line for each key.

A line contains the columns time, table, key, batch, last seen and reason, separated by tabs. Several processes may
append to a file at the same time. When the file is larger than its limit, it is renamed, and the oldest file is
deleted.
"""
import datetime
import errno
import fcntl
import os
import re
import stat
import time
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.errors import EvictionLogError
from ascpipe.layout.ticket import SEQUENCE_BITS, sequence_of

EVICTED = "evicted"
DELETED = "deleted"
OLD_FILES = 3  #: number of older files that are kept

_LINES = 8192  # lines of one write; they are smaller than the smallest limit
_COLUMNS = 6
_BLOCK_BYTES = 1 << 24  # part of a file that is searched at a time
_RANK_OF_STEM = re.compile("-[0-9]{1,4}$")
_TRIES = 100
_PAUSE_S = 0.01  # between two attempts to lock the file

Keys = Tuple[np.ndarray, np.ndarray]  #: keys and their timestamps, int64[n] each


class Loss(NamedTuple):
    """Line of the log.

    Attributes:
        time: time of the entry in UTC, such as ``2026-11-30T13:05:00Z``.
        table: name of the table.
        key: the key.
        batch: last batch that was trained before the key was lost, as ``run:batch``.
        last_seen: timestamp of the last batch that trained the key, or 0 without timestamps.
        why: EVICTED or DELETED.
    """

    time: str
    table: str
    key: int
    batch: str
    last_seen: int
    why: str


class EvictionLog:
    """Writer of the log. The writer never raises an error and never waits until a disk has free space.

    Args:
        path: path of the file.
        limit_bytes: size at which the file is renamed.
        warn: function that receives a sentence when the first line is lost, and the number of lost lines when the
            file can be written again.

    Attributes:
        lost: number of lines that were not written.
    """

    def __init__(self, path: str, limit_bytes: int, warn: Callable[[str], object]) -> None:
        self._path = path
        self._limit = limit_bytes
        self._warn = warn
        self.lost = 0
        self._untold = 0  # lost lines that the file does not mention

    def write(self, table: str, ticket: int, why: str, keys: Iterable[Keys]) -> int:
        """Append a line for each key. If a line cannot be written, this line and all later lines of the call are
        dropped and counted.

        Args:
            ticket: last batch that the table has trained.
            why: EVICTED or DELETED.

        Returns:
            The number of lines that this call has lost.
        """
        fails = False
        lost_before = self.lost
        for some, seen in keys:
            for start in range(0, len(some), _LINES):
                part = slice(start, start + _LINES)
                if fails:
                    self._lose(len(some[part]))
                else:
                    fails = not self._append(lines_of(table, ticket, why, time.time(), (some[part], seen[part])))
        return self.lost - lost_before

    def _append(self, text: bytes) -> bool:
        """Append lines. Return False if at least one line was not written."""
        told = b"# %d lines were lost\n" % self._untold if self._untold else b""
        written = 0
        try:
            written = _append(self._path, self._limit, told + text)
            if written < len(told + text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._untold:
                self._warn("{} can be written again. {} lines were lost, and the file has a line with this number"
                           .format(self._path, self._untold))
            self._untold = 0
        except OSError as error:
            if written >= len(told):
                self._untold = 0
            if not self.lost:
                self._warn(str(EvictionLogError(self._path, error.strerror or str(error), "Lines are lost; the file "
                                                "has their number when it can be written again. Training continues")))
            self._lose((told + text)[written:].count(b"\n") - (written < len(told)))
            return False
        return True

    def _lose(self, lines: int) -> None:
        self.lost += lines
        self._untold += lines


def require_writable(path: str) -> None:
    """Create the log if it does not exist. Raise ``EvictionLogError`` if lines cannot be written."""
    try:
        os.close(_opened(path))
    except OSError as error:
        raise EvictionLogError(path, error.strerror or str(error), "Nothing was started") from error


def path_of_rank(path: str, rank: int) -> str:
    """Return the log path of a rank: ``evicted-1.tsv`` for ``evicted.tsv`` and rank 1."""
    stem, suffix = os.path.splitext(path)
    return "{}-{}{}".format(stem, rank, suffix)


def paths_of_ranks(path: str) -> List[str]:
    """Return the paths of the logs of all ranks. ``path`` is the value of the setting ``eviction_log``, or the
    path of one rank's log.
    """
    stem, suffix = os.path.splitext(path)
    stems = {re.escape(stem), re.escape(_RANK_OF_STEM.sub("", stem))}
    folder = os.path.dirname(path)
    is_log = re.compile("(?:{})(?:-[0-9]{{1,4}})?{}".format("|".join(sorted(stems)), re.escape(suffix)))
    try:
        there = os.listdir(folder or os.curdir)
    except OSError:
        return [path]
    return sorted({path, *(other for other in (os.path.join(folder, name) for name in there)
                           if is_log.fullmatch(other))})


def files_of(path: str) -> List[str]:
    """Return the paths of the current log file and of the older log files, newest first."""
    return [path, *("{}.{}".format(path, number) for number in range(1, OLD_FILES + 1))]


def lines_of(table: str, ticket: int, why: str, now: float, keys: Keys) -> bytes:
    """Return the encoded log lines, one line for each key."""
    moment = datetime.datetime.utcfromtimestamp(now).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = "{}\t{}\t%d\t{}:{}\t%d\t{}\n".format(moment, table, ticket >> SEQUENCE_BITS, sequence_of(ticket), why)
    return (line * len(keys[0]) % tuple(np.stack(keys, axis=1).ravel().tolist())).encode()


def parsed(line: bytes) -> Optional[Loss]:
    """Parse a line of the log. Return None if the line is incomplete."""
    fields = line.decode("utf-8", "replace").rstrip("\n").split("\t")
    if len(fields) != _COLUMNS or fields[-1] not in (EVICTED, DELETED):
        return None
    try:
        return Loss(fields[0], fields[1], int(fields[2]), fields[3], int(fields[4]), fields[5])
    except ValueError:
        return None


def newest(path: str, table: str, keys: Sequence[int]) -> Dict[int, Loss]:
    """Return the newest line of each key, from the logs of all ranks. Files that cannot be read are ignored."""
    newest_of: Dict[int, Loss] = {}
    for log in paths_of_ranks(path):
        for key, loss in _newest_of_rank(log, table, keys).items():
            if key not in newest_of or newest_of[key].time < loss.time:
                newest_of[key] = loss
    return newest_of


def _newest_of_rank(path: str, table: str, keys: Sequence[int]) -> Dict[int, Loss]:
    found: Dict[int, Loss] = {}
    for file in files_of(path):
        for block in _blocks_from_the_end(file):
            for key in set(keys) - set(found):
                loss = _last_line(block, table, key)
                if loss is not None:
                    found[key] = loss
    return found


def _last_line(block: bytes, table: str, key: int) -> Optional[Loss]:
    part = "\t{}\t{}\t".format(table, key).encode()
    place = block.rfind(part)
    while place >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        loss = parsed(block[start:block.find(b"\n", place) + 1])
        if loss is not None and (loss.table, loss.key) == (table, key):
            return loss
        place = block.rfind(part, 0, place)
    return None


def _blocks_from_the_end(path: str) -> Iterator[bytes]:
    """Yield blocks of complete lines, starting with the last block of the file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        end = os.fstat(fd).st_size if stat.S_ISREG(os.fstat(fd).st_mode) else 0
        rest = b""  # the end of a line that begins in the block before
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            block = os.pread(fd, end - start, start) + rest
            first = block.find(b"\n") + 1 if start else 0
            rest = block[:first] if first or not start else block
            yield block[first:] if first or not start else b""
            end = start
    finally:
        os.close(fd)


def _append(path: str, limit_bytes: int, text: bytes) -> int:
    """Append lines, and return the number of bytes that were written. Only complete lines are written.

    Raises:
        OSError: nothing was written.
    """
    for _ in range(_TRIES):
        fd = _opened(path)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE_S)
                continue
            at = os.fstat(fd)
            if not os.path.exists(path) or not os.path.samestat(at, os.stat(path)):
                continue  # another process has renamed the file
            if at.st_size and at.st_size + len(text) > limit_bytes:
                _rotate(path)
                continue
            return _write(fd, at.st_size, text)
        finally:
            os.close(fd)
    raise OSError(errno.EAGAIN, "another process has locked the file")


def _opened(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return fd


def _rotate(path: str) -> None:
    files = files_of(path)
    for older, newer in zip(files[:0:-1], files[-2::-1]):
        if os.path.exists(newer):
            os.replace(newer, older)


def _write(fd: int, size: int, text: bytes) -> int:
    if size and os.pread(fd, 1, size - 1) != b"\n":  # a process was killed while it wrote a line
        os.write(fd, b"\n")
        size += 1
    written = 0
    try:
        while written < len(text):
            written += os.write(fd, text[written:])
    except OSError:
        complete = text.rfind(b"\n", 0, written) + 1
        os.ftruncate(fd, size + complete)
        if not complete:
            raise
        return complete
    return written
