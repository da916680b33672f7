"""Where a checkpoint lies: paths and names, and which of them we refuse."""
import os
import re
import unicodedata
from typing import NamedTuple, Optional, Tuple

from ascpipe.checkpoint.errors import CheckpointPathError

MANIFEST = "MANIFEST.json"
PAIR = "PAIR.json"
MARKER = "ASCPIPE"  #: a file that says whose directory it is; locked while the directory is written
DENSE = "dense-part"  #: folder of TensorFlow's files; no table has a name with a dash

#: names that a table cannot have, since every checkpoint has a file of that name beside the folders of tables
TAKEN_NAMES = frozenset([MARKER])
TABLE_NAME = re.compile(r"[0-9A-Za-z_]{1,100}\Z")
SLOT_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}\Z")

_SPARSE = "sparse-"
_DELTA = "delta-sparse-"
_DISPLACED = ".displaced-"
_MAX_PATH = 1024
_MAX_NAME_BYTES = 200  # of 255: room for what is put before and after it
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SYSTEM = frozenset(["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"])
_NOT_SYSTEM = ("/dev/shm", "/usr/local", "/usr/src")  # noqa: S108 (said of paths that the program gives)


def slice_record(rank: int) -> str:
    """Name of the file in which a rank tells rank 0 what it has written; a complete checkpoint has none."""
    return "SLICE_{}.json".format(rank)


class Place(NamedTuple):
    """Where a checkpoint is.

    Attributes:
        prefix: as the program gave it.
        directory: in which both parts lie.
        stem: ``base-step``, what the names of TensorFlow's files begin with; empty where the program gave
            ``directory/`` without a step.
    """

    prefix: str
    directory: str
    stem: str

    @property
    def sparse(self) -> str:
        """Name of the directory of the sparse part, which is the checkpoint."""
        return _SPARSE + self.stem

    @property
    def delta(self) -> str:
        """Its name if the checkpoint is a delta."""
        return _DELTA + self.stem

    @property
    def displaced(self) -> str:
        """Its name while another takes its place, where the file system cannot exchange them; a delta has none."""
        return _DISPLACED + self.sparse

    @property
    def names(self) -> Tuple[str, ...]:
        """The names that the checkpoint may have, in the order of their right to it."""
        return self.sparse, self.displaced, self.delta


def place_of(prefix: str) -> Place:
    """Where the checkpoint of this prefix is.

    Raises:
        CheckpointPathError: a path that we refuse.
    """
    _check_path(prefix)
    directory, stem = os.path.split(prefix)
    _check_stem(prefix, stem)
    return Place(prefix, checked_directory(directory or os.curdir), stem)


def place_of_save(directory: str, base: str, step: Optional[int]) -> Place:
    """Where the checkpoint of a save goes.

    Raises:
        CheckpointPathError: a path that we refuse.
        ValueError: a step below 0.
    """
    if step is not None and (isinstance(step, bool) or not 0 <= step < 1 << 63):
        raise ValueError("step {!r} of a checkpoint is not in [0, 2^63)".format(step))
    if os.sep in base or not (directory or base):
        raise CheckpointPathError(base, "the name of a checkpoint is not a path")
    return place_of(os.path.join(directory, base if step is None else "{}-{}".format(base, int(step))))


def stem_of(name: str) -> Optional[str]:
    """``base-step`` of the name of a sparse part, full, displaced or a delta; None if it is no such name."""
    for prefix in (_SPARSE, _DELTA, _DISPLACED + _SPARSE):
        if name.startswith(prefix):
            return name[len(prefix):]
    return None


def is_delta_name(name: str) -> bool:
    """Whether a sparse part of this name is a delta."""
    return name.startswith(_DELTA)


def checked_directory(directory: str) -> str:
    """``directory``, if checkpoints may lie there.

    Raises:
        CheckpointPathError: a path that we refuse.
    """
    _check_path(directory)
    for path in (os.path.abspath(directory), os.path.realpath(directory)):
        if is_of_system(path):
            raise CheckpointPathError(directory, "{} is a directory of the system".format(path))
    return directory


def _check_path(path: str) -> None:
    if not isinstance(path, str) or not 1 <= len(path) <= _MAX_PATH:
        raise CheckpointPathError(path, "expected a text of 1 to {} characters".format(_MAX_PATH))
    if has_control_characters(path):
        raise CheckpointPathError(path, "it has control characters")
    if _SCHEME.match(path):
        raise CheckpointPathError(path, "only local files can be read and written, without a scheme")


def _check_stem(prefix: str, stem: str) -> None:
    if stem.startswith("."):
        raise CheckpointPathError(prefix, "the name begins with a dot")
    if len(os.fsencode(stem)) > _MAX_NAME_BYTES:
        raise CheckpointPathError(prefix, "the name has {} bytes, at most {} are possible".format(
            len(os.fsencode(stem)), _MAX_NAME_BYTES))


def has_control_characters(path: str) -> bool:
    """Whether a path or name cannot be shown, or written in a list, as it is."""
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in path)


def is_of_system(path: str) -> bool:
    """Whether an absolute path is the root, or lies in a directory of the system."""
    if any(path == free or path.startswith(free + os.sep) for free in _NOT_SYSTEM):
        return False
    first = path.split(os.sep)[1]
    return first == "" or first in _SYSTEM
