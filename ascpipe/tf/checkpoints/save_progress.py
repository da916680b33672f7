"""Log lines about the progress of a long save."""
import logging
import os
import time

_log = logging.getLogger(__name__)

PROGRESS_S = 10.0  #: seconds between two progress lines in the log of a long save


class SaveProgress:
    """Progress of a long save, which is logged at most once every ``PROGRESS_S`` seconds."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._began = time.monotonic()
        self._said = self._began

    def __call__(self, written: int, needed: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            _log.info("saving %s: %.1f of %.1f GiB, %.0f MiB/s", os.path.basename(self._base), written / 2.0 ** 30,
                      needed / 2.0 ** 30, written / 2.0 ** 20 / (now - self._began))
