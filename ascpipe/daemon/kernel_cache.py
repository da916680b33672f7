"""Manages the cache of compiled kernels: one folder for each state of their sources, and the digests of what is in it.

numba decides by the time stamp of one source file whether a compiled function is current, so a change in a
file that it calls goes unnoticed.  Here each state of the sources has a folder of its own.  What lies there
is executed: only this user and root may be able to change it, or any folder on the way to it.  So what workers load by
its path is what was verified before they began.

A disk that was full, a machine that went down, or a wrong copy may leave a file that numba trips over, or one that
it loads.  ``SEAL`` lists what was whole, so that a damaged file is compiled again and never run; files that it does not
list are new and left alone.

``warm_up`` makes a library of all kernels (``ascpipe.kernels.library``). It is loaded only if the seal vouches for it.
Only where none can be made, numba's own files lie here. An installed package has libraries of its own.
"""
import functools
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from ascpipe.directories import make_safe_dir, refused, user_cache
from ascpipe.layout.kernel_library import (
    LEVELS,
    NATIVE,
    NUMBA_FOLDER,
    described_processor,
    file_name,
    installed_folder,
    levels_of,
    sources_digest,
)

KEPT = 4  #: folders of other states of the sources that may stay
SEAL = "seal.json"  #: path in the folder -> SHA-256
_PREFIX = "kernels-"
_BY_NUMBA = (".nbi", ".nbc")
_COMPILED = (*_BY_NUMBA, ".so")
_OTHERWISE = ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")  # kernels are asked for that no library has


def base_dir(setting: str) -> str:
    """Return the parent of all kernel folders: the setting, else ``user_cache()``."""
    return os.path.abspath(setting) if setting else user_cache()


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


# ---- the library

def library(folder: str, environment: Mapping[str, str]) -> str:
    """Path of the library that processes with ``environment`` load; empty if there is none.

    One of the installed package is trusted as the package's Python files are. One in ``folder`` has to be sealed.
    """
    if not may_link(environment):
        return ""
    installed = (os.path.join(installed_folder(), file_name(level)) for level in levels())
    cached = os.path.join(folder, library_name())
    return next(filter(os.path.exists, installed), "") or (
        cached if library_name() in _read(folder) and os.path.exists(cached) else "")


def may_link(environment: Mapping[str, str]) -> bool:
    """Whether the kernels of processes with ``environment`` are those of a library."""
    return all(environment.get(name, "0") in ("", "0") for name in _OTHERWISE)


def compiles_first(folder: str, environment: Mapping[str, str]) -> str:
    """What is said while the first daemon compiles; empty where kernels are there, or none are compiled."""
    if not may_link(environment) or library(folder, environment) or count(folder):
        return ""
    text = ("ascpipe: {}the kernels of the workers are compiled now, once for this version, into {}. The first batch "
            "waits for that: a minute or two, longer on a busy machine. `ascpipe warmup` does it beforehand")
    return text.format(why_none_fits(os.listdir(installed_folder()), described_processor()), folder)


def why_none_fits(names: Sequence[str], processor: Mapping[str, str]) -> str:
    """Why no library of the installed package can be loaded, as the beginning of a sentence; empty if it has none.

    Args:
        names: of the files of the package.
        processor: as /proc/cpuinfo describes it.
    """
    if not any(name.endswith(".so") for name in names):
        return ""
    flags = processor.get("flags", "").split()
    if not levels_of(flags):
        least = list(LEVELS)[-1]
        return "the compiled kernels of this package need a processor of {}, and this one lacks {}: ".format(
            least, " ".join(sorted(set(LEVELS[least].flags) - set(flags))))
    return "the compiled kernels of this package are for other sources or another Python than these: "


@functools.lru_cache(maxsize=None)
def levels() -> List[str]:
    """Levels whose code this processor runs, the best one first."""
    return levels_of(described_processor().get("flags", "").split())


def level() -> str:
    """What kernels are compiled for here: the best level, so that similar processors share them, else this processor.
    """
    return next(iter(levels()), NATIVE)


def library_name() -> str:
    """Of the file that is compiled here."""
    return file_name(level())


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
