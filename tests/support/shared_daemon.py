"""Shares one daemon among the trainers of many tests, one after the other, so that it is loaded only once.

A test whose subject is the daemon, and one that sets anything of ours in its environment, has a private one, as users
have.
"""
import os
from typing import Optional

from ascpipe.config import ENVIRONMENT_PREFIX
from ascpipe.control import trainer_link
from ascpipe.errors import BusyError
from tests.support.daemons import DaemonProcess, is_alive

HASH_SEED_VARIABLE = ENVIRONMENT_PREFIX + "HASH_SEED"  #: set for all tests
RING_BYTES = 16 << 20  #: memory that is written to in full before it is used

_connect = trainer_link.connect


class SharedDaemon:
    """Starts when it is first asked for, and again if a test has ended it."""

    def __init__(self) -> None:
        self._daemon: Optional[DaemonProcess] = None
        self._was_lent = False

    def connect(self, daemon: Optional[str] = None, *, layout: int,
                begun: Optional[trainer_link.Begun] = None) -> trainer_link.TrainerLink:
        """``trainer_link.connect``, to this daemon where a private one would do."""
        set_here = (name for name in os.environ if name != HASH_SEED_VARIABLE)
        if daemon or any(name.startswith(ENVIRONMENT_PREFIX) for name in set_here):
            return _connect(daemon, layout=layout, begun=begun)
        if not self._runs():
            self.end()
            self._daemon = DaemonProcess("shared", spared=True, ring_bytes=RING_BYTES)
        self._was_lent = True
        try:
            return _connect("shared", layout=layout)
        except BusyError:  # it still serves the trainer of a test that failed
            return _connect(layout=layout)

    def require_back(self) -> None:
        """After a test: whatever trainer it had has left."""
        if self._was_lent and self._runs():
            assert self._daemon.status()["state"] == "idle", "the test left its trainer registered"
        self._was_lent = False

    def end(self) -> None:
        """Idempotent."""
        if self._daemon is not None:
            self._daemon.end()
            self._daemon = None

    def _runs(self) -> bool:
        return self._daemon is not None and is_alive(self._daemon.pid)
