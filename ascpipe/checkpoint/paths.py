"""Paths and names of checkpoints, and functions that check paths and names."""
import os
import re
import unicodedata
from typing import NamedTuple, Optional, Tuple

from ascpipe.checkpoint.errors import CheckpointPathError
from ascpipe.errors import ArgumentError

MANIFEST = "MANIFEST.json"
PAIR = "PAIR.json"
MARKER = "ASCPIPE"  #: marker file of a directory of ascpipe; locked while the directory is written
DENSE = "dense-part"  #: folder of TensorFlow's files; no table has this name, because table names have no dashes

#: names that a table must not have, because files with these names are next to the folders of the tables
TAKEN_NAMES = frozenset([MARKER])
TABLE_NAME = re.compile(r"[0-9A-Za-z_]{1,100}\Z")
SLOT_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}\Z")

_SPARSE = "sparse-"
_DELTA = "delta-sparse-"
_DISPLACED = ".displaced-"
_MAX_PATH = 1024
_MAX_NAME_BYTES = 200  # file names may have 255 bytes; 55 of these are for prefixes and suffixes
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SYSTEM = frozenset(["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"])
_NOT_SYSTEM = ("/dev/shm", "/usr/local", "/usr/src")  # noqa: S108 (these paths are compared, not used for files)


def slice_record(rank: int) -> str:
    """Return the name of the file in which a rank describes its slice for rank 0. Rank 0 removes the file when the
    checkpoint is committed.
    """
    return "SLICE_{}.json".format(rank)


class Place(NamedTuple):
    """Location of a checkpoint.

    Attributes:
        prefix: the path that the program passed.
        directory: directory of the sparse and the dense part.
        stem: ``base-step``, prefix of the names of TensorFlow's files; empty if the program passed ``directory/``
            without a step.
    """

    prefix: str
    directory: str
    stem: str

    @property
    def sparse(self) -> str:
        """Return the name of the sparse directory of a full checkpoint."""
        return _SPARSE + self.stem

    @property
    def delta(self) -> str:
        """Return the name of the sparse directory of a delta."""
        return _DELTA + self.stem

    @property
    def displaced(self) -> str:
        """Return the temporary name of a full checkpoint that is being replaced by a save.

        The name is used only if the file system cannot exchange two names.
        """
        return _DISPLACED + self.sparse

    @property
    def names(self) -> Tuple[str, ...]:
        """Return the possible names of the sparse directory, in order of precedence."""
        return self.sparse, self.displaced, self.delta


def place_of(prefix: str) -> Place:
    """Return the location of a checkpoint.

    Raises:
        CheckpointPathError: the path is not allowed.
    """
    _check_path(prefix)
    directory, stem = os.path.split(prefix)
    _check_stem(prefix, stem)
    return Place(prefix, checked_directory(directory or os.curdir), stem)


def place_of_save(directory: str, base: str, step: Optional[int]) -> Place:
    """Return the location of a new checkpoint.

    Raises:
        CheckpointPathError: the path is not allowed.
        ValueError: the step is not in [0, 2^63).
    """
    if step is not None and (isinstance(step, bool) or not 0 <= step < 1 << 63):
        raise ArgumentError("Step {!r} of a checkpoint is not in [0, 2^63). Nothing was written".format(step))
    if os.sep in base or not (directory or base):
        raise CheckpointPathError(base, "the name of a checkpoint is not a path")
    return place_of(os.path.join(directory, base if step is None else "{}-{}".format(base, int(step))))


def stem_of(name: str) -> Optional[str]:
    """Return ``base-step`` from the name of a sparse part (full, displaced or delta); None for other names."""
    for prefix in (_SPARSE, _DELTA, _DISPLACED + _SPARSE):
        if name.startswith(prefix):
            return name[len(prefix):]
    return None


def is_delta_name(name: str) -> bool:
    """Return whether ``name`` is the name of a delta's sparse part."""
    return name.startswith(_DELTA)


def checked_directory(directory: str) -> str:
    """Return ``directory`` if the directory may contain checkpoints.

    Raises:
        CheckpointPathError: the path is not allowed.
    """
    _check_path(directory)
    for path in (os.path.abspath(directory), os.path.realpath(directory)):
        if is_of_system(path):
            raise CheckpointPathError(directory, "{} is a directory of the system".format(path))
    return directory


def _check_path(path: str) -> None:
    if not isinstance(path, str) or not 1 <= len(path) <= _MAX_PATH:
        raise CheckpointPathError(path, "it is not a string of 1 to {} characters".format(_MAX_PATH))
    if has_control_characters(path):
        raise CheckpointPathError(path, "it has control characters")
    if _SCHEME.match(path):
        raise CheckpointPathError(path, "only local files without a scheme can be read and written")


def _check_stem(prefix: str, stem: str) -> None:
    if stem.startswith("."):
        raise CheckpointPathError(prefix, "its name begins with a dot")
    if len(os.fsencode(stem)) > _MAX_NAME_BYTES:
        raise CheckpointPathError(prefix, "its name has {} bytes; at most {} are possible".format(
            len(os.fsencode(stem)), _MAX_NAME_BYTES))


def has_control_characters(path: str) -> bool:
    """Return whether a path or name has control characters, which would garble terminals and line-based files."""
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in path)


def is_of_system(path: str) -> bool:
    """Return whether an absolute path is the root directory or is in a system directory."""
    if any(path == free or path.startswith(free + os.sep) for free in _NOT_SYSTEM):
        return False
    first = path.split(os.sep)[1]
    return first == "" or first in _SYSTEM
