"""Manages the cache of compiled kernels: one folder for each state of their sources, and the digests of what is in it.

numba decides by the time stamp of one source file whether a compiled function is current, so a change in a
file that it calls goes unnoticed.  Here each state of the sources has a folder of its own.  What lies there
is executed: only this user and root may be able to change it, or any folder on the way to it.  So what workers load by
its path is what was verified before they began.

A disk that was full, a machine that went down, or a wrong copy may leave a file that numba trips over, or one that
it loads.  ``SEAL`` lists what was whole, so that a damaged file is compiled again and never run; files that it does not
list are new and left alone.

Beside what numba keeps lies a library of the same machine code (``ascpipe.kernels.library``), made by ``warm_up``.
A library is loaded only if the seal vouches for it; one is of its processor, its Python and its packages.
"""
import functools
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping

from ascpipe.directories import make_safe_dir, refused
from ascpipe.layout.kernel_library import NUMBA_FOLDER

KEPT = 4  #: folders of other states of the sources that may stay
SEAL = "seal.json"  #: path in the folder -> SHA-256
_PREFIX = "kernels-"
_BY_NUMBA = (".nbi", ".nbc")
_COMPILED = (*_BY_NUMBA, ".so")
_OTHERWISE = ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")  # kernels are asked for that no library has
_PACKAGES = (("numba", "_version.py"), ("llvmlite", "_version.py"), ("numpy", "version.py"))
_DESCRIBED = 1 << 14  # bytes of /proc/cpuinfo: the first processor, and not all of a hundred


def base_dir(setting: str) -> str:
    """The parent of all these folders: the setting, else in the user's cache."""
    if setting:
        return os.path.abspath(setting)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "ascpipe")


def folder_of(setting: str) -> str:
    """The folder for the sources as they are; it may not be there."""
    return os.path.join(os.path.realpath(base_dir(setting)), _PREFIX + sources_digest())


def folders_of_others(setting: str) -> List[str]:
    """Folders for other states of the sources, such as other versions."""
    own = folder_of(setting)
    base = os.path.dirname(own)
    return sorted(path for path in (os.path.join(base, name) for name in (
        os.listdir(base) if os.path.isdir(base) else []) if name.startswith(_PREFIX)) if path != own)


def prepare(setting: str) -> str:
    """The folder for the sources as they are; made if it is missing, old ones removed.

    It may be one that this user cannot write to, as in an image that root made, or on a file system that is read-only.

    Raises:
        RunDirError: it, or a folder on the way to it, could be changed by others.
        DirectoryFullError: there is no room to make it.
    """
    base = make_safe_dir(base_dir(setting))
    path = make_safe_dir(os.path.join(base, _PREFIX + sources_digest()))
    try:
        os.utime(path)
    except OSError:
        return path  # not ours to change: then nothing is tidied up either
    others = [os.path.join(base, name) for name in os.listdir(base) if name.startswith(_PREFIX)]
    for old in sorted(others, key=os.path.getmtime)[:-KEPT - 1]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def require_writable(folder: str) -> None:
    """Refuse a folder that has no library and cannot take what numba compiles: numba would look elsewhere.

    Raises:
        RunDirError: it is read-only, or not ours to change.
        DirectoryFullError: it can have no more files.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise refused(folder, OSError(error.errno, "it has no library of kernels for this processor and Python, "
                      "which `ascpipe warmup` makes, and cannot be written to: {}".format(error.strerror))) from error


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
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources() -> List[Path]:
    package = Path(__file__).resolve().parent.parent
    return [path for folder in ("kernels", "layout") for ending in ("*.py", "*.c")
            for path in sorted((package / folder).glob(ending))]


# ---- the library

def library(folder: str, environment: Mapping[str, str]) -> str:
    """Path of the library that processes with ``environment`` load; empty if there is none, or it is not sealed."""
    path = os.path.join(folder, library_name())
    return path if may_link(environment) and library_name() in _read(folder) and os.path.exists(path) else ""


def may_link(environment: Mapping[str, str]) -> bool:
    """Whether the kernels of processes with ``environment`` are those of a library."""
    return all(environment.get(name, "0") in ("", "0") for name in _OTHERWISE)


def compiles_first(folder: str, environment: Mapping[str, str]) -> str:
    """What is said while the first daemon compiles; empty where kernels are there, or none are compiled."""
    if not may_link(environment) or library(folder, environment) or count(folder):
        return ""
    text = ("ascpipe: the kernels of the workers are compiled now, once for this version, into {}. The first batch "
            "waits for that: a minute or two, longer on a busy machine. `ascpipe warmup` does it beforehand")
    return text.format(folder)


@functools.lru_cache(maxsize=None)
def library_name() -> str:
    """Of the file that this Python may load on this processor."""
    digest = hashlib.sha256("\n".join([sys.version, platform.machine(), *_processor()]).encode())
    for package, version in _PACKAGES:
        found = importlib.util.find_spec(package)  # imports nothing
        if found is not None and found.origin is not None:
            digest.update(Path(found.origin).with_name(version).read_bytes())
    return "library-{}.so".format(digest.hexdigest()[:16])


def _processor() -> List[str]:
    """What machine code may depend on: model and instructions of a processor."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            described = file.read(_DESCRIBED).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return []
    return [line for line in described.splitlines() if line.split("\t")[0] in ("vendor_id", "model name", "flags")]


# ---- the seal

def drop_damaged(folder: str) -> List[str]:
    """Remove every file that is not as it was sealed; returns which.  A seal that cannot be read vouches for none."""
    sealed = _read(folder)
    damaged = [name for name in _compiled(folder) if name in sealed and _digest(folder, name) != sealed[name]]
    for name in damaged:
        os.unlink(os.path.join(folder, name))
    if damaged:  # all files of these functions will be written anew, and differ
        functions = {_function(name) for name in damaged}
        _write(folder, {name: digest for name, digest in sealed.items() if _function(name) not in functions})
    return damaged


def seal(folder: str) -> None:
    """Record the digests of new files and drop those of removed files. Idempotent."""
    sealed = _read(folder)
    listed = {name: sealed.get(name) or _digest(folder, name) for name in _compiled(folder)}
    if listed != sealed:
        _write(folder, listed)


def _function(name: str) -> str:
    """What the index and the code of one function have in common: module.function-line.pyXX."""
    return ".".join(name.split(".")[:3])


def _write(folder: str, listed: Dict[str, str]) -> None:
    fd, beside = tempfile.mkstemp(dir=folder, prefix=SEAL)
    try:
        with open(fd, "w") as out:
            json.dump(listed, out)
        os.replace(beside, os.path.join(folder, SEAL))
    except OSError:
        os.unlink(beside)
        raise


def count(folder: str) -> int:
    """Number of files that numba has written."""
    return sum(name.endswith(_BY_NUMBA) for name in _compiled(os.path.join(folder, NUMBA_FOLDER)))


def _read(folder: str) -> Dict[str, str]:
    try:
        found = json.loads(Path(folder, SEAL).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _compiled(folder: str) -> List[str]:
    return [os.path.relpath(os.path.join(path, name), folder)
            for path, _, names in os.walk(folder) for name in sorted(names) if name.endswith(_COMPILED)]


def _digest(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ""  # another daemon has just cleared the folder
