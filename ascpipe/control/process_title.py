"""Names a process in ``ps`` and ``top``."""
import os

import setproctitle

_KEEP_ENVIRONMENT = "SPT_NOENV"  # the title may take the room of the arguments, not that of /proc/PID/environ too


def set_process_title(title: str) -> None:
    """Show ``"ascpipe: TITLE"`` for this process; what is longer than its command line was is cut off."""
    os.environ[_KEEP_ENVIRONMENT] = "1"
    setproctitle.setproctitle("ascpipe: " + title)
    del os.environ[_KEEP_ENVIRONMENT]
