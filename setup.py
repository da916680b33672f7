"""Packages of the distribution, and how what is compiled gets into a wheel; everything else is in pyproject.toml.

``workers/`` and ``tfops/`` lie at the top of the tree and are packages of ``ascpipe``. The ops are compiled by
``ascpipe.tfops.build`` and the kernels by ``ascpipe.kernels.linking``. Both keep what they made in the tree, so that a
second wheel takes no time.

The ops fit one patch release of TensorFlow: that of the environment that pip installs into, or the newest one where it
has none. The wheel requires that release.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
MAPPED = {"ascpipe.workers": "workers", "ascpipe.tfops": "tfops"}
OPS = "ascpipe.tfops.libascpipe_ops"
MADE = ("libascpipe_ops.so", "libascpipe_disk.so", "build_info.json")  # in tfops/
KERNELS = HERE / "build/kernels"
# The release of TensorFlow for each Python, and the packages that compiling needs.
TENSORFLOW_1 = sys.version_info < (3, 8)
SERIES, NEWEST = ("1.15", "1.15.5") if TENSORFLOW_1 else ("2.15", "2.15.1")
# Where `make setup` has made an environment, it has all that is needed to compile, and the objects in the tree are of
# its TensorFlow. Elsewhere pip installs it for the build alone.
OF_TREE = HERE / ".venv/bin/python"
NEEDED = (["numba==0.56.4", "numpy>=1.18,<1.19", "protobuf>=3.20.3,<3.21"] if TENSORFLOW_1 else
          ["numba==0.56.4" if sys.version_info < (3, 11) else "numba==0.58.1", "numpy==1.23.5", "protobuf>=3.20.3,<5"])
ASK_FOR_TENSORFLOW = """
import json, pkg_resources
names = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")
found = {one.key: one.version for one in pkg_resources.working_set}
print(json.dumps([found[name] for name in names if name in found]))
"""


def has_tree_environment():
    """Return whether ``.venv`` exists and has the version of Python that runs this file."""
    version = "{}.{}".format(*sys.version_info[:2])
    return OF_TREE.exists() and (OF_TREE.parent / ("python" + version)).exists()


def tensorflow_release():
    """Return the release of TensorFlow to compile for. Exit with a message if another TensorFlow is installed.

    pip hides the packages of the environment that it installs into, but not its interpreter.
    """
    python = OF_TREE if has_tree_environment() else sys.executable
    hidden = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    asked = subprocess.run([str(python), "-W", "ignore", "-c", ASK_FOR_TENSORFLOW], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, env=hidden, cwd="/", check=False)
    found = json.loads(asked.stdout.decode()) if asked.returncode == 0 else []
    for version in found:
        if not re.match(re.escape(SERIES) + r"\.\d+$", version):
            sys.exit("ascpipe cannot be installed with TensorFlow {}: for Python {}.{} it needs TensorFlow {}. "
                     "Nothing was changed. Install it into a separate environment.".format(
                         version, *sys.version_info[:2], SERIES))
    return (found or [NEWEST])[0]


def is_for_this_python(requirement):
    """Return whether the marker of a requirement, ``python_version < '3.8'`` and the like, holds for this Python."""
    marker = re.search(r"python_version (<|>=) '3\.(\d+)'", requirement)
    if marker is None:
        return True
    return (sys.version_info[1] < int(marker.group(2))) == (marker.group(1) == "<")


class Narrowed(Distribution):
    """The requirements of pyproject.toml for this Python, with one release of TensorFlow."""

    def parse_config_files(self, *args, **options):
        super().parse_config_files(*args, **options)
        release = "tensorflow==" + tensorflow_release()
        self.install_requires = [release if one.startswith("tensorflow==" + SERIES) else one
                                 for one in self.install_requires if is_for_this_python(one)]


class BuildExt(build_ext):
    """Compiles ops and kernels in the tree and copies them; an editable install finds the ops where they are."""

    def run(self):
        # -E: pip's environment for the build is for this interpreter, not for that of the tree
        python = [str(OF_TREE), "-E"] if has_tree_environment() else [sys.executable]
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None and not (HERE / "tfops" / MADE[0]).exists():
            sys.exit("ascpipe cannot be compiled: there is no {0}. Nothing was installed. Install {0}, for example by "
                     "`apt-get install g++`, or install a wheel, which needs no compiler.".format(compiler))
        subprocess.run([*python, "-W", "ignore", str(HERE / "scripts/build_ops.py")], check=True)
        if not self._in_place():
            environment = {name: value for name, value in os.environ.items() if name != "KERNEL_LIBRARY"}
            subprocess.run([*python, "-W", "ignore", "-m", "ascpipe.kernels.wheel_libraries", str(KERNELS)], check=True,
                           cwd=str(HERE), env=environment)
            for source, made in self._copied():
                Path(made).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, made)

    def get_outputs(self):
        return [] if self._in_place() else [made for _, made in self._copied()]

    def get_output_mapping(self):
        return {}

    def _copied(self):
        """What is copied into the wheel, and where."""
        ops = [(HERE / "tfops" / name, "ascpipe/tfops") for name in MADE]
        kernels = [(path, "ascpipe/kernels") for path in sorted(KERNELS.glob("*.so"))]
        return [(str(path), str(Path(self.build_lib, folder, path.name))) for path, folder in ops + kernels]

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


def needed():
    """What pip installs for the build."""
    return [] if has_tree_environment() else ["tensorflow==" + tensorflow_release(), *NEEDED]


setup(packages=packages(), ext_modules=[Extension(OPS, [])], cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
      distclass=Narrowed, setup_requires=needed())
