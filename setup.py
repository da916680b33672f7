"""Packages of the distribution; everything else is in pyproject.toml.

``workers/`` and ``tfops/`` lie at the top of the tree and are packages of ``ascpipe``.
"""
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
MAPPED = {"ascpipe.workers": "workers", "ascpipe.tfops": "tfops"}


def packages():
    found = find_packages(str(HERE), include=["ascpipe", "ascpipe.*", "mx_rec", "mx_rec.*"])
    for package, folder in MAPPED.items():
        found.append(package)
        found += ["{}.{}".format(package, sub) for sub in find_packages(str(HERE / folder))]
    return found


setup(packages=packages())
