"""Installs ``mx_rec`` into a separate directory of site-packages, which a .pth file adds to ``sys.path``.

Another product's ``mx_rec`` is in site-packages itself, so pip never overwrites or removes its files. The separate
directory comes first on the path, so programs import ``mx_rec/_product.py``, which refuses to run beside another one.
"""
import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

TREE = Path(__file__).resolve().parent.parent.parent
FOLDER = "ascpipe_mx_rec"  # below site-packages
# The first line is for tools that read .pth files, such as mypy. `site` executes the second line, with `sitedir`
# defined; it puts the directory first on the path.
ON_THE_PATH = FOLDER + '\nimport os, sys; sys.path.insert(0, os.path.join(sitedir, "{}"))\n'.format(FOLDER)
# pip removes a directory only together with its last direct file, so the directory needs a file.
ABOUT = "mx_rec of ascpipe-mx-rec lies in a folder of its own, which ../{}.pth puts on the path.\n".format(FOLDER)
VERSION = re.search(r'^__version__ = "(.+)"', (TREE / "ascpipe/__init__.py").read_text(), re.M).group(1)


class BuildPy(build_py):
    """Builds the modules below ``FOLDER`` and the .pth file. An editable install maps the name to the tree instead."""

    def finalize_options(self):
        super().finalize_options()
        self._top = Path(self.build_lib)
        if not getattr(self, "editable_mode", False):
            self.build_lib = str(self._top / FOLDER)

    def run(self):
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(str(self._top), ignore_errors=True)
        super().run()
        if not getattr(self, "editable_mode", False):
            (self._top / (FOLDER + ".pth")).write_text(ON_THE_PATH)
            (self._top / FOLDER / "README.txt").write_text(ABOUT)


setup(packages=find_packages(str(TREE), include=["mx_rec", "mx_rec.*"]), package_dir={"mx_rec": "../../mx_rec"},
      version=VERSION, install_requires=["ascpipe=={}".format(VERSION)], cmdclass={"build_py": BuildPy})
