"""Records digests of the compiled kernels, so that a damaged file is compiled again and never run.

A disk that was full, a machine that went down, or a wrong copy may leave a file that numba trips over, or one that
it loads.  ``SEAL`` lists what was whole; files that it does not list are new and left alone.
"""
import hashlib
import json
import os
import tempfile
from typing import Dict, Iterator, List

SEAL = "seal.json"  #: path in the folder -> SHA-256
_COMPILED = (".nbi", ".nbc")


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
    sealed, present = _read(folder), list(_compiled(folder))
    listed = {name: sealed.get(name) or _digest(folder, name) for name in present}
    if listed != sealed:
        _write(folder, listed)


def _function(name: str) -> str:
    """What the index and the code of one function have in common: module.function-line.pyXX."""
    return ".".join(name.split(".")[:3])


def _write(folder: str, listed: Dict[str, str]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=SEAL, delete=False) as out:
        json.dump(listed, out)
    os.replace(out.name, os.path.join(folder, SEAL))


def count(folder: str) -> int:
    """Compiled files that are there."""
    return len(list(_compiled(folder)))


def _read(folder: str) -> Dict[str, str]:
    try:
        with open(os.path.join(folder, SEAL)) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _compiled(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(_COMPILED):
                yield os.path.relpath(os.path.join(path, name), folder)


def _digest(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ""  # another daemon has just cleared the folder
