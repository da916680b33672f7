"""Manages the cache of compiled kernels: one folder for each state of their sources.

numba decides by the time stamp of one source file whether a compiled function is current, so a change in a
file that it calls goes unnoticed.  Here each state of the sources has a folder of its own.  What lies there
is executed: the folder must be ours alone.
"""
import hashlib
import os
import shutil
from typing import Iterator

from ascpipe.errors import RunDirError
from ascpipe.names import make_private_dir

KEPT = 4  #: folders of other states of the sources that may stay
_PREFIX = "kernels-"


def base_dir(setting: str) -> str:
    """The parent of all these folders: the setting, else in the user's cache."""
    if setting:
        return os.path.abspath(setting)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "ascpipe")


def prepare(setting: str) -> str:
    """The folder for the sources as they are; made if it is missing, old ones removed.

    Raises:
        RunDirError: it is not ours alone.
    """
    base = base_dir(setting)
    try:
        os.makedirs(os.path.dirname(base), mode=0o700, exist_ok=True)
        make_private_dir(base)
    except OSError as error:
        raise RunDirError(base, error.strerror or str(error)) from error
    path = os.path.join(base, _PREFIX + sources_digest())
    make_private_dir(path)
    os.utime(path)
    others = [os.path.join(base, name) for name in os.listdir(base) if name.startswith(_PREFIX)]
    for old in sorted(others, key=os.path.getmtime)[:-KEPT - 1]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def clear(path: str) -> None:
    """Empty the folder. A killed process can leave half a file, which no later process can read."""
    for entry in os.listdir(path):
        inside = os.path.join(path, entry)
        if os.path.isdir(inside) and not os.path.islink(inside):
            shutil.rmtree(inside, ignore_errors=True)
        else:
            os.unlink(inside)


def sources_digest() -> str:
    """16 hexadecimal digits over every source that workers compile, and what these take constants from."""
    digest = hashlib.sha256()
    for path in _sources():
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:16]


def _sources() -> Iterator[str]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (os.path.join(package, part) for part in ("kernels", "layout")):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                yield os.path.join(folder, name)
