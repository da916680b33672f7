"""Runs programs as several ranks, with horovodrun itself or with ``ascpipe run --ranks``.

Horovod is met in these programs alone: it is never imported into the process of the tests.
"""
import importlib.util
import os
import subprocess
import sys

import pytest

from ascpipe import ranks
from tests.support.ascend_programs import QUIET
from tests.support.daemons import ROOT

INSTALLED = importlib.util.find_spec("horovod") is not None
needs_horovod = pytest.mark.skipif(not INSTALLED, reason="Horovod is not installed: make ranks")

_LAUNCHERS = tuple(name for launcher in ranks.LAUNCHERS for name in launcher) + ("RANK_SIZE", "RANK_ID")


def environment(**more):
    """That of the tests, without a launcher's variables and with ``more``."""
    kept = {name: value for name, value in os.environ.items()
            if name not in _LAUNCHERS and not name.startswith("HOROVOD_")}
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


def ended(command, **kwargs):
    """(exit code, standard output, standard error) of a launcher."""
    process = started(command, **kwargs)
    out, err = process.communicate()
    return process.returncode, out, err


def said(out, rank):
    """The lines that a rank printed, by horovodrun's prefix."""
    prefix = "[{}]<stdout>:".format(rank)
    return [line[len(prefix):] for line in out.splitlines() if line.startswith(prefix)]
