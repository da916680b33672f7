"""Checks of paths of a program's files, by the incumbent's rules for checkpoint paths."""
import os
import re

from ascpipe.checkpoint import paths
from ascpipe.errors import FilePathError
from ascpipe.tf.validation import Text

_PATH = Text(1, 1024)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_REMOTE = ("hdfs", "viewfs")


def validate_read_file(path: str) -> None:
    """Raise ``ValueError`` if a file must not be read.

    Args:
        path: 1 to 1024 characters without control characters. A local path must name a regular file outside system
            directories, and must not be a symbolic link. ``hdfs:/`` and ``viewfs:/`` paths have no further checks.
    """
    if _is_local("read", path) and not os.path.isfile(path):
        raise FilePathError("Cannot read {!r}: {}".format(
                                path, "it is no regular file" if os.path.exists(path) else "there is no such file"))


def validate_save_path(path: str) -> None:
    """Raise ``ValueError`` if a file or directory, which need not exist, must not be written.

    Args:
        path: see ``validate_read_file``.
    """
    _is_local("write", path)


def _is_local(verb: str, path: str) -> bool:
    """Check a path, and return whether it is local."""
    _PATH.check("path", path)
    if paths.has_control_characters(path):
        raise FilePathError("Cannot {} {!r}: the path has control characters".format(verb, path))
    scheme = _SCHEME.match(path)
    if scheme is not None:
        if scheme.group(1) not in _REMOTE:
            raise FilePathError("Cannot {} {!r}: the scheme is {!r}; expected none, or {}".format(
                                    verb, path, scheme.group(1), " or ".join(map(repr, _REMOTE))))
        return False
    if os.path.islink(path.rstrip(os.sep)):
        raise FilePathError("Cannot {} {!r}: it is a symbolic link. Pass the path of its target".format(verb, path))
    for place in (os.path.abspath(path), os.path.realpath(path)):
        if paths.is_of_system(place):
            raise FilePathError("Cannot {} {!r}: {} is in a directory of the system".format(verb, path, place))
    return True
