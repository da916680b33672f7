"""Cache of environments with installed packages. Cached environments share their files with .venv of each tree.

A folder ``environment-<digest>`` is for one interpreter and one set of locks. Its files are hard links to the files of
the first such .venv, so they need no additional space. A later installation in one of these trees replaces files, which
does not affect other trees. ``seal.json`` has a digest of sizes and times of all files. If a file was changed in place,
the environment is removed and not used.
"""
import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator, Optional, Tuple

from ascpipe.directories import cache_dir, make_safe_dir

KEPT = 3  #: number of environments in the cache
PREFIX = "environment-"
SEAL = "seal"
FILES = "venv"


def digest_of(python: str, *locks: Path) -> str:
    """Return the digest of an interpreter and of files with requirements."""
    real = os.path.realpath(python)
    digest = hashlib.sha256("{} {}\0".format(real, os.stat(real).st_mtime_ns).encode())
    for lock in locks:
        digest.update(lock.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def find(digest: str) -> Optional[str]:
    """Return the folder with the files of an environment, or None if it does not exist or a file was changed.

    Raises:
        RunDirError: other users could change the folder.
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
    """Create hard links to all files in the cache, and remove all but the newest environments.

    Returns:
        False if the cache is on another file system, so that nothing was stored.

    Raises:
        RunDirError: other users could change the cache directory.
        OSError: the cache directory cannot be written.
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
    """Create folder ``target`` with hard links to the files of ``source``, or with copies on another file system."""
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
    """Iterate like os.walk. A link to a folder is listed as a file."""
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
    """Create ``target`` from the environment ``source``. An existing environment is replaced."""
    beside = target + ".new"
    for old in (beside, target):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(old)
    link(source, beside)
    os.rename(beside, target)
