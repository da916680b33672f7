"""Functions that check the paths of a program's files. The functions use Rec SDK's rules for checkpoint paths."""
import os
import re

from ascpipe.checkpoint import paths
from ascpipe.errors import FilePathError
from ascpipe.tf.validation import Text

_PATH = Text(1, 1024)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_REMOTE = ("hdfs", "viewfs")


def validate_read_file(path: str) -> None:
    """Raise ``FilePathError`` if a program must not read the file at a path.

    Args:
        path: 1 to 1024 characters without control characters. A local path must be the path of a regular file outside
            system directories, and must not be a symbolic link. Paths that begin with ``hdfs:/`` or ``viewfs:/`` are
            not checked further.
    """
    if _is_local("read", path) and not os.path.isfile(path):
        raise FilePathError("Path {!r} cannot be read: {}".format(
            path, "it is not a regular file" if os.path.exists(path) else "there is no such file"))


def validate_save_path(path: str) -> None:
    """Raise ``FilePathError`` if a program must not write to a path. The path need not exist.

    Args:
        path: the same as in ``validate_read_file``.
    """
    _is_local("written", path)


def _is_local(verb: str, path: str) -> bool:
    """Check a path, and return whether the path is local."""
    _PATH.check("path", path)
    if paths.has_control_characters(path):
        raise FilePathError("Path {!r} cannot be {}: it contains control characters".format(path, verb))
    scheme = _SCHEME.match(path)
    if scheme is not None:
        if scheme.group(1) not in _REMOTE:
            raise FilePathError("Path {!r} cannot be {}: its scheme is {!r}, expected none, or {}".format(
                path, verb, scheme.group(1), " or ".join(map(repr, _REMOTE))))
        return False
    if os.path.islink(path.rstrip(os.sep)):
        raise FilePathError("Path {!r} cannot be {}: it is a symbolic link. Pass the path of its target".format(
            path, verb))
    for place in (os.path.abspath(path), os.path.realpath(path)):
        if paths.is_of_system(place):
            raise FilePathError("Path {!r} cannot be {}: {} is in a directory of the system".format(path, verb, place))
    return True
