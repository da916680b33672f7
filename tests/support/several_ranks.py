"""Runs programs as several ranks, with horovodrun itself or with ``ascpipe run --ranks``, by gloo or by MPI.

Horovod is met in these programs alone: it is never imported into the process of the tests.
"""
import functools
import glob
import importlib.util
import mmap
import os
import re
import shutil
import subprocess
import sys
from typing import Optional

import pytest

from ascpipe import ranks
from tests.support.ascend_programs import QUIET
from tests.support.daemons import ROOT

INSTALLED = importlib.util.find_spec("horovod") is not None
needs_horovod = pytest.mark.skipif(not INSTALLED, reason="Horovod is not installed: make ranks")

_LAUNCHERS = tuple(name for launcher in ranks.LAUNCHERS for name in launcher) + ("RANK_SIZE", "RANK_ID")


@functools.lru_cache(maxsize=None)
def is_built_with_mpi() -> bool:
    """Whether Horovod was built with MPI."""
    found = importlib.util.find_spec("horovod")
    libraries = [path for folder in (found.submodule_search_locations if found is not None else ())
                 for path in glob.glob(os.path.join(folder, "tensorflow", "mpi_lib*.so"))]
    for path in libraries:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
            if library.find(b"libmpi.so") >= 0:
                return True
    return False


def lacking_for_mpi() -> Optional[str]:
    """Why no ranks are started by mpirun here; None if they are."""
    if shutil.which("mpirun") is None:
        return "mpirun is not on the path"
    return None if is_built_with_mpi() else "Horovod was built without MPI: make ranks, where mpicxx is on the path"


def environment(**more):
    """That of the tests, without a launcher's variables and with ``more``."""
    kept = {name: value for name, value in os.environ.items()
            if name not in _LAUNCHERS and not name.startswith("HOROVOD_")}
    # Open MPI's files of ranks that run: a suite beside this one would take them for left behind in /dev/shm.
    kept["OMPI_MCA_btl_vader_backing_directory"] = kept.get("XDG_RUNTIME_DIR", "/dev/shm")
    return {**kept, **QUIET, "PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3", **more}


def started(command, cwd="/", **more):
    """A launcher that runs."""
    return subprocess.Popen(command, cwd=str(cwd), env=environment(**more), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def horovodrun(count, script, *arguments):
    """The command of ``horovodrun -np COUNT python SCRIPT ARGUMENTS``."""
    return [sys.executable, "-W", "ignore", "-m", "horovod.runner.launch", "--gloo", "--disable-cache", "-np",
            str(count), "-H", "localhost:{}".format(count), sys.executable, "-W", "ignore", str(script), *arguments]


def ascpipe_run(count, script, *arguments, options=()):
    """The command of ``ascpipe run --ranks COUNT OPTIONS SCRIPT ARGUMENTS``."""
    return [sys.executable, "-W", "ignore", "-m", "ascpipe", "run", "--ranks", str(count), *options, str(script),
            *arguments]


def by(launcher, count, script, *arguments):
    """The command by which a launcher starts ranks: horovodrun ("gloo"), or mpirun by ``ascpipe run`` ("mpi")."""
    if launcher == "gloo":
        return horovodrun(count, script, *arguments)
    return ascpipe_run(count, script, *arguments, options=["--mpi"])


def ended(command, **kwargs):
    """(exit code, standard output, standard error) of a launcher."""
    process = started(command, **kwargs)
    out, err = process.communicate()
    return process.returncode, out, err


def said(out, rank):
    """The lines that a rank printed; horovodrun has a prefix before each line, mpirun before each write."""
    tag = re.compile(r"\[(?:1,)?([0-9]+)\]<stdout>:")
    pieces = tag.split("".join(line + "\n" for line in out.splitlines() if tag.match(line)))
    return "".join(text for number, text in zip(pieces[1::2], pieces[2::2]) if int(number) == rank).splitlines()
