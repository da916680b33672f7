"""Cache of compiled kernels. For each version of the sources, there is a separate directory with compiled kernels.

numba checks only the time stamp of one source file, so it does not detect changes in files that this file imports.
Processes execute the content of a directory. So only this user and root may be able to change the directory or any
parent directory.

A full disk, a crash of the machine or a bad copy may leave damaged files. The file ``SEAL`` of a directory, called its
seal, lists the SHA-256 digests of intact files. A damaged file is recompiled and never executed. Files that are not
listed are new and are kept.

``warm_up`` builds a library of all kernels (``ascpipe.kernels.library``). A process loads the library only if the seal
lists it. numba's own files are used only if no library can be built. An installed package has its own libraries.
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

KEPT = 4  #: directories of other source versions to keep
SEAL = "seal.json"  #: file that maps paths to SHA-256 digests
_PREFIX = "kernels-"
_BY_NUMBA = (".nbi", ".nbc")
_COMPILED = (*_BY_NUMBA, ".so")
_OTHERWISE = ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")  # settings for which no library has kernels


def base_dir(setting: str) -> str:
    """Return the directory that contains all kernel directories: ``setting``, or ``user_cache()`` if ``setting`` is
    empty.
    """
    return os.path.abspath(setting) if setting else user_cache()


def folder_of(setting: str) -> str:
    """Return the directory for kernels that were compiled from the current sources. The directory may not exist."""
    return os.path.join(os.path.realpath(base_dir(setting)), _PREFIX + sources_digest())


def other_folders(setting: str) -> List[str]:
    """Return the directories of kernels that were compiled from other versions of the sources."""
    own = folder_of(setting)
    base = os.path.dirname(own)
    return sorted(path for path in (os.path.join(base, name) for name in (
        os.listdir(base) if os.path.isdir(base) else []) if name.startswith(_PREFIX)) if path != own)


def prepare(setting: str) -> str:
    """Return the directory for kernels of the current sources. Create this directory if it is missing, and remove
    directories of old sources.

    The directory may not be writable, for example in a container image built by root or on a read-only file system.

    Raises:
        RunDirError: other users could change the directory or a parent directory.
        DirectoryFullError: the file system is full.
    """
    base = make_safe_dir(base_dir(setting))
    path = make_safe_dir(os.path.join(base, _PREFIX + sources_digest()))
    try:
        os.utime(path)
    except OSError:
        return path  # the directory is not writable, so old directories also stay
    others = [os.path.join(base, name) for name in os.listdir(base) if name.startswith(_PREFIX)]
    for old in sorted(others, key=os.path.getmtime)[:-KEPT - 1]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def require_writable(folder: str) -> None:
    """Raise an error unless numba can write to ``folder``. Without the error, numba would use another directory.

    Raises:
        RunDirError: the directory is read-only or belongs to another user.
        DirectoryFullError: the file system is full.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise refused(folder, OSError(error.errno, "it has no kernel library for this processor and Python, which "
                                                   "`ascpipe warmup` builds, and is not writable: "
                                                   "{}".format(error.strerror))) from error


def clear(path: str) -> None:
    """Remove all files in directory ``path``, because a killed process may have left incomplete files."""
    for entry in os.listdir(path):
        inside = os.path.join(path, entry)
        if os.path.isdir(inside) and not os.path.islink(inside):
            shutil.rmtree(inside, ignore_errors=True)
        else:
            os.unlink(inside)


# ---- the library

def library(folder: str, environment: Mapping[str, str]) -> str:
    """Return the path of the kernel library that processes with ``environment`` load. Return an empty string if there
    is none.

    A library of the installed package is trusted like its Python files. The seal must list a library in ``folder``.
    """
    if not may_link(environment):
        return ""
    installed = (os.path.join(installed_folder(), file_name(level)) for level in levels())
    cached = os.path.join(folder, library_name())
    return next(filter(os.path.exists, installed), "") or (
        cached if library_name() in _read(folder) and os.path.exists(cached) else "")


def may_link(environment: Mapping[str, str]) -> bool:
    """Return True if processes with ``environment`` may load kernels from a kernel library."""
    return all(environment.get(name, "0") in ("", "0") for name in _OTHERWISE)


def compile_notice(folder: str, environment: Mapping[str, str]) -> str:
    """Return a notice that kernels will be compiled, or an empty string if no kernels have to be compiled."""
    if not may_link(environment) or library(folder, environment) or count(folder):
        return ""
    text = ("ascpipe: {}the kernels of the workers are being compiled, once for this version, into {}. The first "
            "batch waits a minute or two for it, longer on a busy machine. `ascpipe warmup` compiles them in advance")
    return text.format(mismatch_reason(os.listdir(installed_folder()), described_processor()), folder)


def mismatch_reason(names: Sequence[str], processor: Mapping[str, str]) -> str:
    """Return a clause that explains why no kernel library of the installed package can be used.

    The string is empty if the package has no library.

    Args:
        names: file names of the package's libraries.
        processor: fields of /proc/cpuinfo.
    """
    if not any(name.endswith(".so") for name in names):
        return ""
    flags = processor.get("flags", "").split()
    if not levels_of(flags):
        least = list(LEVELS)[-1]
        return "the compiled kernels of this package need a processor of level {}, and this one lacks {}: ".format(
            least, " ".join(sorted(set(LEVELS[least].flags) - set(flags))))
    return "the compiled kernels of this package were built from other sources or for another Python: "


@functools.lru_cache(maxsize=None)
def levels() -> List[str]:
    """Return the instruction set levels that this processor supports, best first."""
    return levels_of(described_processor().get("flags", "").split())


def level() -> str:
    """Return the compilation target: this processor's best instruction set level, or ``NATIVE`` if there is no such
    level.

    Similar processors share a level.
    """
    return next(iter(levels()), NATIVE)


def library_name() -> str:
    """Return the file name of a kernel library that is compiled on this machine."""
    return file_name(level())


# ---- the seal

def drop_damaged(folder: str) -> List[str]:
    """Remove all files whose digests differ from the digests in the seal file. Return the names of the removed files.

    If the seal cannot be read, no file is removed.
    """
    sealed = _read(folder)
    damaged = [name for name in _compiled(folder) if name in sealed and _digest(folder, name) != sealed[name]]
    for name in damaged:
        os.unlink(os.path.join(folder, name))
    if damaged:  # numba writes new files for these functions, so their old digests are dropped
        functions = {_function(name) for name in damaged}
        _write(folder, {name: digest for name, digest in sealed.items() if _function(name) not in functions})
    return damaged


def seal(folder: str) -> None:
    """Update the seal file: add the digests of new files, and drop the digests of removed files."""
    sealed = _read(folder)
    listed = {name: sealed.get(name) or _digest(folder, name) for name in _compiled(folder)}
    if listed != sealed:
        _write(folder, listed)


def _function(name: str) -> str:
    """Return the prefix ``module.function-line.pyXX`` of a file name. All files of one compiled function have this
    prefix.
    """
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
    """Return the number of compiled kernels that numba has written below ``folder``."""
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
        return ""  # another daemon has just emptied the directory
