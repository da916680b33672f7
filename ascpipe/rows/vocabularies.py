"""Keys of the rows of a variable: row numbers, or the lines of a vocabulary file."""
import importlib
import re
from typing import Callable, List, NamedTuple, Optional

import numpy as np

from ascpipe.checkpoint.contents import INT_BYTES
from ascpipe.checkpoint.errors import NotConvertedError
from ascpipe.checkpoint.keys import repeated
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown

IDENTITY = "identity"
HASH_BUCKET = "hash_bucket"
_VOCABULARY = "vocabulary:"
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_KINDS = "identity, hash_bucket or vocabulary:FILE"

Hash = Callable[[List[str]], np.ndarray]  #: function that returns the int64 key of each string
Keys = Callable[[int, int], np.ndarray]  #: keys of consecutive rows: (first row, number of rows) -> int64[n]


class Lookup(NamedTuple):
    """Parameters from which a program computes the row number of a key.

    Attributes:
        prefix: checkpoint, for error messages.
        variable: name of the variable.
        rows: number of rows of the variable.
        parts: rows of each part, if the program looks up a partitioned variable with the strategy "mod"; otherwise
            empty.
    """

    prefix: str
    variable: str
    rows: int
    parts: List[int]


def check_kind(keys: str) -> None:
    """Raise ``ArgumentError`` unless ``keys`` is ``identity``, ``hash_bucket`` or ``vocabulary:FILE``."""
    if keys not in (IDENTITY, HASH_BUCKET) and not (keys.startswith(_VOCABULARY) and keys != _VOCABULARY):
        raise ArgumentError("keys={} is not allowed. Nothing was read or written. Pass {}".format(shown(keys), _KINDS))


def keys_of(keys: str, lookup: Lookup) -> Keys:
    """Return a function that maps row numbers to keys.

    Args:
        keys: ``identity``, ``hash_bucket`` or ``vocabulary:FILE``. A bucket number is a row number.

    Raises:
        NotConvertedError: the vocabulary cannot be read, has the wrong number of lines, or contains a line twice.
        NoMemoryToReadError: the keys do not fit into memory.
    """
    rows = lookup.rows
    words: Optional[np.ndarray] = None
    if keys.startswith(_VOCABULARY):
        with memory_for(lookup.prefix, "the keys of {}".format(lookup.variable), 4 * INT_BYTES * rows):
            words = _words(keys[len(_VOCABULARY):], lookup)
    ids = _mod_ids(lookup.parts)

    def found(first: int, count: int) -> np.ndarray:
        numbers = ids(first, count)
        return numbers if words is None else words[numbers]

    return found


def _mod_ids(parts: List[int]) -> Keys:
    """Return a function that maps row numbers to ids. With the partition strategy "mod" and n parts, id i is row i // n
    of part i % n.
    """
    ends = np.cumsum(parts)

    def found(first: int, count: int) -> np.ndarray:
        rows = np.arange(first, first + count, dtype=np.int64)
        if not len(ends):
            return rows
        part = np.searchsorted(ends, rows, "right")
        within = rows - np.concatenate([[0], ends])[part]
        return (within * len(parts) + part).astype(np.int64)

    return found


def _words(path: str, lookup: Lookup) -> np.ndarray:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(lookup, path, "it cannot be read: {}".format(error)) from error
    if lines[-1] == "":
        lines.pop()
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    if len(lines) != lookup.rows:
        raise _refused(lookup, path, "it has {} lines, but {!r} has {} rows. The line of a row is its key".format(
            len(lines), lookup.variable, lookup.rows))
    keys = _integers(lines)
    keys = _hashed(lines, path, lookup) if keys is None else keys
    double = repeated(keys.copy())
    if double is not None:
        first, second = (np.flatnonzero(keys == double)[:2] + 1).tolist()
        raise _refused(lookup, path, "lines {} and {} have the same key {}".format(first, second, double))
    return keys


def _integers(lines: List[str]) -> Optional[np.ndarray]:
    """Parse the lines as int64 keys. Return None if a line is not an int64."""
    if not all(map(_INTEGER.match, lines)):
        return None
    try:
        return np.array([int(line) for line in lines], np.int64)
    except OverflowError:
        return None


def _hashed(lines: List[str], path: str, lookup: Lookup) -> np.ndarray:
    """Return the keys of strings. The hash function is part of TensorFlow, which is imported only if keys are strings.
    """
    try:
        hash_texts: Hash = importlib.import_module("ascpipe.tf.checkpoints.text_keys").keys_of_texts
    except ImportError as error:
        raise _refused(lookup, path, "line 1 is {}, which is not an integer, and the keys of texts need TensorFlow, "
                       "which cannot be imported ({}). Install TensorFlow, or write the keys as integers".format(
                           shown(lines[0]), error)) from error
    return hash_texts(lines)


def _refused(lookup: Lookup, path: str, reason: str) -> NotConvertedError:
    return NotConvertedError(lookup.prefix, path, reason)

