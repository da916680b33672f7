"""The copy of the tree in which faults are planted.

Files are hard links of those of the tree, so a copy takes seconds. None is ever written through such a link: a file
that changes is replaced by a new one. What compilers write to (``tfops/build``) is really copied.
"""
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Mapping

from tests.planted_faults.faults import ROOT, Fault, planted

LEFT_OUT = frozenset([".git", "build", "dist", "site", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"])
BUILD_S = 900.0  #: longest build of the ops, of one file that changed


class CannotBuildError(Exception):
    """A planted fault does not compile; the text is that of the compiler."""


class Scratch:
    """A copy of the tree, with its environment; ``plant`` and ``restore`` change one file of it.

    Args:
        folder: where it is made. A tree that is there is removed first.

    Raises:
        BlockingIOError: another run uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._caches = folder / "cache"  # stays: what numba compiles for this path is of use again
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends
        self.remove()
        self.root.mkdir()
        for entry in sorted(ROOT.iterdir()):
            if entry.name not in LEFT_OUT and not entry.name.endswith(".egg-info"):
                _link(entry, self.root / entry.name)
        self._copy_build()
        self._move_environment()
        self._copy_kernels()

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(self.root / ".venv/bin/python")

    def environment(self, fault_in_kernels: bool) -> Mapping[str, str]:
        """Variables of processes that run in it. Changed kernels have a cache of their own, which begins empty."""
        return {**os.environ, "XDG_CACHE_HOME": str(self._caches / ("changed" if fault_in_kernels else "kernels"))}

    def plant(self, fault: Fault) -> None:
        """Put a fault into its file.

        Raises:
            CannotBuildError: it does not compile.
        """
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        self._replace(fault.file, planted(fault, text))
        if fault.file.startswith("tfops/src/"):
            self._build()

    def restore(self, fault: Fault) -> None:
        """Take a fault out again: everything is as it was, also what was compiled."""
        path = self.root / fault.file
        path.unlink()
        os.link(str(ROOT / fault.file), str(path))
        self._forget_byte_code(path)
        if fault.file.startswith("tfops/src/"):
            self._copy_build()
        self._empty_cache()

    def remove(self) -> None:
        """Remove the tree, if it is there."""
        if self.root.exists():
            shutil.rmtree(str(self.root))

    def _replace(self, file: str, text: str) -> None:
        path = self.root / file
        mode = path.stat().st_mode
        path.unlink()
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        self._forget_byte_code(path)

    @staticmethod
    def _forget_byte_code(path: Path) -> None:
        """Byte code is compared with the second and the size of its source, which may be those of another version."""
        for compiled in path.parent.glob("__pycache__/{}.*.pyc".format(path.stem)):
            compiled.unlink()

    def _build(self) -> None:
        done = subprocess.run([self.python, "-W", "ignore", "scripts/build_ops.py", "--quiet"], cwd=str(self.root),
                              check=False, capture_output=True, text=True, timeout=BUILD_S)
        if done.returncode != 0:
            raise CannotBuildError(done.stderr[-4000:])

    def _copy_build(self) -> None:
        """Copy what was compiled, with its times."""
        for name in ("build", "libascpipe_ops.so", "libascpipe_files.so", "build_info.json"):
            source, target = ROOT / "tfops" / name, self.root / "tfops" / name
            if target.is_dir():
                shutil.rmtree(str(target))
            elif target.exists():
                target.unlink()
            if source.is_dir():
                shutil.copytree(str(source), str(target))
            else:
                shutil.copy2(str(source), str(target))

    def _move_environment(self) -> None:
        """Let scripts and the finders of editable packages lead to this tree."""
        old, new = str(ROOT), str(self.root)
        subprocess.run([self.python, str(ROOT / "scripts/move_venv.py"), old + "/.venv", new + "/.venv"], check=True,
                       timeout=60)
        packages = self.root / ".venv/lib/python{}.{}/site-packages".format(*sys.version_info[:2])
        for finder in packages.glob("__editable___*_finder.py"):
            text = finder.read_text(encoding="utf-8").replace("'{}/".format(old), "'{}/".format(new))
            finder.unlink()
            finder.write_text(text, encoding="utf-8")
            self._forget_byte_code(finder)

    def _copy_kernels(self) -> None:
        """Copy the compiled kernels of this user, which daemons load by the digest of their sources."""
        from ascpipe.daemon import kernel_cache

        self._empty_cache()
        known = Path(kernel_cache.folder_of(""))
        copy = self._caches / "kernels/ascpipe" / known.name
        if known.is_dir() and not copy.exists():
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copytree(str(known), str(copy))

    def _empty_cache(self) -> None:
        changed = self._caches / "changed"
        if changed.exists():
            shutil.rmtree(str(changed))
        changed.mkdir(mode=0o700, parents=True)


def _link(source: Path, target: Path) -> None:
    """Copy a file, a link or a folder by hard links."""
    if source.is_symlink() or not source.is_dir():
        os.link(str(source), str(target), follow_symlinks=False)
        return
    target.mkdir()
    shutil.copystat(str(source), str(target))
    for entry in os.scandir(str(source)):
        if entry.name not in (".git", ".ruff_cache"):
            _link(Path(entry.path), target / entry.name)
