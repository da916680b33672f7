"""Packages of the distribution, and the compiled files of a wheel. pyproject.toml has all other metadata.

``workers/`` and ``tfops/`` are at the top of the tree and are packages of ``ascpipe``. ``ascpipe.tfops.build`` compiles
the ops, and ``ascpipe.kernels.linking`` compiles the kernels. Both keep their results in the tree, so that a second
wheel is built quickly.

The ops fit one patch release of TensorFlow. It is the release in the environment of the installation, or the newest
release if that environment has no TensorFlow. The wheel requires this release.
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
MADE = ("libascpipe_ops.so", "libascpipe_files.so", "build_info.json")  # in tfops/
KERNELS = HERE / "build/kernels"
# The release of TensorFlow for each Python, and the packages that compiling needs.
TENSORFLOW_1 = sys.version_info < (3, 8)
SERIES, NEWEST = ("1.15", "1.15.5") if TENSORFLOW_1 else ("2.15", "2.15.1")
# An environment of `make setup` has all packages that are needed to compile, and the objects in the tree were
# compiled for its TensorFlow. In other trees, pip installs these packages only for the build.
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
    """Return the release of TensorFlow for which to compile. Exit with an error if another TensorFlow is
    installed.

    pip hides the packages of the environment of the installation, but not the interpreter.
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


class Narrowed(Distribution):
    """Distribution whose requirement of TensorFlow is one release instead of the range in pyproject.toml."""

    def parse_config_files(self, *args, **options):
        super().parse_config_files(*args, **options)
        release = "tensorflow==" + tensorflow_release()
        # setuptools has moved the requirements with a marker to the extras `:python_version < "3.8"` and the like.
        for required in self.extras_require.values():
            required[:] = [release if str(one).startswith("tensorflow==" + SERIES) else one for one in required]


class BuildExt(build_ext):
    """Command that compiles ops and kernels in the tree and copies them. An editable install uses the ops in
    the tree.
    """

    def run(self):
        # -E, because pip's environment variables are for this interpreter, not for the interpreter of the tree
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
        """Return (source, destination) of each file that is copied into the wheel."""
        ops = [(HERE / "tfops" / name, "ascpipe/tfops") for name in MADE]
        kernels = [(path, "ascpipe/kernels") for path in sorted(KERNELS.glob("*.so"))]
        return [(str(path), str(Path(self.build_lib, folder, path.name))) for path, folder in ops + kernels]

    def _in_place(self):
        return bool(self.inplace or getattr(self, "editable_mode", False))


class BuildPy(build_py):
    """Command that starts with an empty folder, so that the wheel contains no files of an earlier build."""

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
    """Return the packages that pip installs for the build."""
    return [] if has_tree_environment() else ["tensorflow==" + tensorflow_release(), *NEEDED]


setup(packages=packages(), ext_modules=[Extension(OPS, [])], cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
      distclass=Narrowed, setup_requires=needed())
