"""The program ``programs/watched.py``, which trains on a daemon until it is ended, and pauses when it is asked to."""
import contextlib
import json
import subprocess
import sys
from typing import List

import numpy as np

from tests.support.daemons import ROOT
from tests.support.programs import running

KEYS = 400
DEVICE_ROWS = 120
_BATCH, _BATCHES = 40, 50


def ids() -> List[List[int]]:
    """Of its batches, which come again and again; its table is named "ids", too."""
    random = np.random.RandomState(7)
    return [random.randint(0, KEYS, _BATCH).tolist() for _ in range(_BATCHES)]


class Program:
    """The program, which trains on a daemon.

    Args:
        daemon: its name.
        stderr: descriptor or file that receives what it says there.
    """

    def __init__(self, daemon, stderr=subprocess.DEVNULL):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.watched"], cwd=ROOT, universal_newlines=True,
            env=running.environment(name=daemon), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=stderr)
        self.pid = self._process.pid
        assert self._told() == {"daemon": daemon}

    def _told(self):
        return json.loads(self._process.stdout.readline())

    def pause(self):
        self.go_on()
        assert self._told() == {"paused": True}

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


@contextlib.contextmanager
def trained_by(daemon, **options):
    program = Program(daemon, **options)
    try:
        yield program
    finally:
        program.end()
