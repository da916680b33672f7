"""Function ``note``, which records a complete checkpoint for the dashboard and reports."""
import contextlib
import logging
import os
import time

from ascpipe import names
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.checkpoint.tree import open_tree
from ascpipe.control import saves
from ascpipe.control.saves import Save

_log = logging.getLogger(__name__)


def note(daemon: str, prefix: str, seconds: float) -> None:
    """Record a newly completed checkpoint. If the files of the checkpoint cannot be read, omit its size and kind.

    Args:
        daemon: name of the daemon.
        prefix: path ``directory/base-step``. It is recorded as an absolute path, because other processes have other
            working directories.
        seconds: duration of the save.
    """
    now = time.time()
    prefix = os.path.abspath(prefix)
    try:
        with contextlib.closing(open_tree(prefix)) as tree:
            records = tree.records()
        save = Save(prefix, now, seconds, records.bytes, records.kind)
    except CheckpointError as error:
        _log.debug("the size of %s is unknown: %s", prefix, error)
        save = Save(prefix, now, seconds)
    saves.note(names.run_dir(daemon), save)
