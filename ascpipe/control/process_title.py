"""Function that sets the name of this process in ``ps`` and ``top``."""
import os

import setproctitle

_KEEP_ENVIRONMENT = "SPT_NOENV"  # setproctitle must not overwrite /proc/PID/environ


def set_process_title(title: str) -> None:
    """Set the name of this process to ``"ascpipe: TITLE"``. A title that is longer than the command
    line is truncated.
    """
    os.environ[_KEEP_ENVIRONMENT] = "1"
    setproctitle.setproctitle("ascpipe: " + title)
    del os.environ[_KEEP_ENVIRONMENT]
