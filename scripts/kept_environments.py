"""Environments with installed packages in the user's cache, which share their files with .venv of each tree.

A folder ``environment-<digest>`` is for one interpreter and one set of locks. Its files are hard links to those of the
.venv that was made first, so that they take no room of their own there. What is installed into one of these trees later
replaces files, and is not seen in others. ``seal.json`` has a digest of sizes and times of all files: if a file was
changed in place, the environment is removed and not used.
"""
import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator, Optional, Tuple

from ascpipe.directories import cache_dir, make_safe_dir

KEPT = 3  #: environments that stay
PREFIX = "environment-"
SEAL = "seal"
FILES = "venv"


def digest_of(python: str, *locks: Path) -> str:
    """The digest of an interpreter and of files with requirements."""
    real = os.path.realpath(python)
    digest = hashlib.sha256("{} {}\0".format(real, os.stat(real).st_mtime_ns).encode())
    for lock in locks:
        digest.update(lock.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def find(digest: str) -> Optional[str]:
    """The folder with the files of that environment, or None if there is none, or one was changed.

    Raises:
        RunDirError: others could change it.
    """
    folder = os.path.join(cache_dir(""), PREFIX + digest)
    if not os.path.isdir(folder):
        return None
    folder = make_safe_dir(folder)
    files = os.path.join(folder, FILES)
    try:
        whole = Path(folder, SEAL).read_text() == _seal(files)
    except OSError:
        whole = False
    if not whole:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    os.utime(folder)
    return files


def keep(digest: str, environment: str) -> bool:
    """Put hard links to all files into the cache, and remove all but the newest environments.

    Returns:
        False: the cache is on another file system, so that nothing is kept.

    Raises:
        RunDirError: others could change the cache directory.
        OSError: it cannot be written to.
    """
    base = make_safe_dir(cache_dir(""))
    if os.stat(base).st_dev != os.stat(environment).st_dev:
        return False
    made = tempfile.mkdtemp(prefix=".new-environment-", dir=base)
    try:
        link(environment, os.path.join(made, FILES))
        Path(made, SEAL).write_text(_seal(os.path.join(made, FILES)))
        target = os.path.join(base, PREFIX + digest)
        if not os.path.isdir(target):
            os.rename(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    kept = [os.path.join(base, name) for name in os.listdir(base) if name.startswith(PREFIX)]
    for old in sorted(kept, key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return True


def link(source: str, target: str) -> None:
    """Make ``target`` a folder with the files of ``source``: hard links, or copies on another file system."""
    for folder, _, entries in _walk(source):
        inside = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(inside)
        for entry in entries:
            path, new = os.path.join(folder, entry), os.path.join(inside, entry)
            if os.path.islink(path):
                os.symlink(os.readlink(path), new)
                continue
            try:
                os.link(path, new)
            except OSError:
                shutil.copy2(path, new)


def _walk(top: str) -> Iterator[Tuple[str, list, list]]:
    """Like os.walk, but a link to a folder is among the files."""
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(set(folders) - set(links))
        yield folder, folders, sorted([*files, *links])


def _seal(files: str) -> str:
    digest = hashlib.sha256()
    for folder, _, entries in _walk(files):
        for entry in entries:
            path = os.path.join(folder, entry)
            status = os.lstat(path)
            said = os.readlink(path) if os.path.islink(path) else "{} {}".format(status.st_size, status.st_mtime_ns)
            digest.update("{}\0{}\0".format(os.path.relpath(path, files), said).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def replace(source: str, target: str) -> None:
    """Make ``target`` the environment of ``source``, in the place of one that may be there."""
    beside = target + ".new"
    for old in (beside, target):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(old)
    link(source, beside)
    os.rename(beside, target)
