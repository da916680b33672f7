"""Packages of the distribution, and how its ops get into a wheel; everything else is in pyproject.toml.

``workers/`` and ``tfops/`` lie at the top of the tree and are packages of ``ascpipe``.  The ops are compiled by
``ascpipe.tfops.build``, which keeps what it made in the tree: a second wheel takes no time.
"""
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
MAPPED = {"ascpipe.workers": "workers", "ascpipe.tfops": "tfops"}
OPS = "ascpipe.tfops.libascpipe_ops"
MADE = ("libascpipe_ops.so", "libascpipe_disk.so", "build_info.json")  # in tfops/
# Where `make setup` has made an environment, it has all that the ops are compiled with, and the objects in the tree are
# of its TensorFlow. Elsewhere pip installs that for the build alone. Of ninja this version: a later one takes the
# script of an environment that pip hides for its program, and that script starts itself, without end.
OF_TREE = HERE / ".venv/bin/python"
NEEDED = ["tensorflow==1.15.5", "protobuf>=3.20.3,<3.21", "ninja==1.11.1.1"]


class BuildExt(build_ext):
    """Compiles the ops in the tree and copies them; an editable install finds them where they are."""

    def run(self):
        # -E: pip's environment for the build is for this interpreter, not for that of the tree
        python = [str(OF_TREE), "-E"] if OF_TREE.exists() else [sys.executable]
        subprocess.run([*python, "-W", "ignore", str(HERE / "scripts/build_ops.py")], check=True)
        if not self._in_place():
            for made in self.get_outputs():
                Path(made).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(HERE / "tfops" / Path(made).name), made)

    def get_outputs(self):
        return [] if self._in_place() else [str(Path(self.build_lib, "ascpipe/tfops", name)) for name in MADE]

    def get_output_mapping(self):
        return {}

    def _in_place(self):
        return bool(self.inplace or getattr(self, "editable_mode", False))


class BuildPy(build_py):
    """Begins in an empty folder: what a wheel of an earlier state left there would be in this one."""

    def run(self):
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


def packages():
    found = find_packages(str(HERE), include=["ascpipe", "ascpipe.*"])
    for package, folder in MAPPED.items():
        found.append(package)
        found += ["{}.{}".format(package, sub) for sub in find_packages(str(HERE / folder))]
    return found


setup(packages=packages(), ext_modules=[Extension(OPS, [])], cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
      setup_requires=[] if OF_TREE.exists() else NEEDED)
