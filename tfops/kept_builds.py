"""Cache of builds of the ops. A second tree with the same sources copies a build instead of compiling the sources.

A folder ``ops-<digest>`` contains the libraries, the objects and their records. The digest covers sources, generated
headers, commands, and the versions of the compiler and of TensorFlow. The files are executed, so only this user and
root may have write access to them and to their parent folders. ``seal.json`` contains the SHA-256 of each file. A
folder with a wrong checksum is removed and not used.
"""
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional

from ascpipe.directories import cache_dir, make_safe_dir

KEPT = 4  #: number of builds in the cache
SEAL = "seal.json"  #: file that maps names to SHA-256 digests
OPS = "ops-"  #: prefix of the folders of builds
ENVIRONMENTS = "environment-"  #: prefix of the folders of installed packages (scripts/kept_environments.py)


def folders(setting: str, prefix: str = OPS) -> List[str]:
    """Return the folders below the cache directory whose names start with ``prefix``. The default prefix selects builds
    of the ops.
    """
    base = os.path.realpath(cache_dir(setting))
    names = os.listdir(base) if os.path.isdir(base) else []
    return [os.path.join(base, name) for name in sorted(names) if name.startswith(prefix)]


def read(state: str) -> Optional[Dict[str, bytes]]:
    """Return the files of the build with the digest ``state``, as a dict: name -> content.

    Return None if the build is missing or damaged. A damaged build is removed from the cache.

    Raises:
        RunDirError: other users have write access to the folder.
    """
    folder = Path(cache_dir(""), OPS + state[:16])
    if not folder.is_dir():
        return None
    folder = Path(make_safe_dir(str(folder)))
    try:
        sealed = json.loads((folder / SEAL).read_text())
        files = {name: (folder / name).read_bytes() for name in sealed if os.path.basename(name) == name}
    except (OSError, ValueError):
        files = {}
        sealed = None
    if not files or {name: _digest(content) for name, content in files.items()} != sealed:
        shutil.rmtree(str(folder), ignore_errors=True)
        return None
    os.utime(str(folder))
    return files


def keep(state: str, files: Iterable[Path]) -> None:
    """Copy the files of a build into the cache, and remove all but the newest builds.

    Raises:
        RunDirError: other users have write access to the cache directory.
        OSError: the cache directory cannot be written.
    """
    base = make_safe_dir(cache_dir(""))
    made = tempfile.mkdtemp(prefix=".new-ops-", dir=base)
    try:
        sealed = {}
        for path in files:
            content = path.read_bytes()
            sealed[path.name] = _digest(content)
            Path(made, path.name).write_bytes(content)
        Path(made, SEAL).write_text(json.dumps(sealed))
        target = os.path.join(base, OPS + state[:16])
        if not os.path.isdir(target):  # otherwise, another tree has just cached the build
            os.rename(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    for old in sorted(folders(""), key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
