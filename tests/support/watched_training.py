"""The program ``programs/watched.py``, which trains on a daemon until it is ended, and pauses when it is asked to."""
import contextlib
import json
import os
from typing import List

import numpy as np

from tests.support.daemons import ROOT
from tests.support.forked_calls import running_server
from tests.support.programs import running

KEYS = 400
DEVICE_ROWS = 120
_BATCH, _BATCHES = 40, 50


def ids() -> List[List[int]]:
    """Of its batches, which come again and again; its table is named "ids", too."""
    random = np.random.RandomState(7)
    return [random.randint(0, KEYS, _BATCH).tolist() for _ in range(_BATCHES)]


class Program:
    """The program, which trains on a daemon. The module of the test has the fixture ``forked_programs``.

    Args:
        daemon: its name.
        err: file that receives what it writes to standard error.
    """

    def __init__(self, daemon, err=os.devnull):
        self._called, self._in, self._out = running_server().talk(
            "python", ["-m", "tests.support.programs.watched"], ROOT, running.environment(name=daemon), err=str(err))
        self.pid = self._called.pid
        assert self._told() == {"daemon": daemon}

    def _told(self):
        return json.loads(self._out.readline())

    def pause(self):
        self.go_on()
        assert self._told() == {"paused": True}

    def go_on(self):
        self._in.write("\n")
        self._in.flush()

    def end(self):
        self._in.close()
        assert self._called.wait() == 0
        self._out.close()


@contextlib.contextmanager
def trained_by(daemon, **options):
    program = Program(daemon, **options)
    try:
        yield program
    finally:
        program.end()
