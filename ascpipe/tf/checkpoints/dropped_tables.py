"""Tables of a restored checkpoint that the program does not have.

Managed sessions save the restored step again. Such a save would replace the checkpoint by one without these tables.
"""
import logging
import os
from typing import List, Sequence

from ascpipe.checkpoint.contents import Position
from ascpipe.tf import internals
from ascpipe.tf.running.pipeline import Pipeline

_log = logging.getLogger(__name__)


class _Dropped:
    """Tables of the checkpoint ``prefix`` that the program does not have."""

    def __init__(self) -> None:
        self.prefix = ""
        self.tables: List[str] = []

    @staticmethod
    def of(pipeline: Pipeline) -> "_Dropped":
        return internals.stored_on(pipeline, "dropped_tables", _Dropped)


def note(pipeline: Pipeline, prefix: str, tables: Sequence[str]) -> None:
    """Record the tables of the last restored checkpoint that the program does not have. Log a warning if there are any.
    """
    dropped = _Dropped.of(pipeline)
    dropped.prefix = os.path.abspath(prefix)
    dropped.tables = list(tables)
    if tables:
        _log.warning("%s also has tables that are not restored, because this program does not save tables of these "
                     "names: %s. Later checkpoints do not contain them", prefix, ", ".join(tables))


def keep(pipeline: Pipeline, prefix: str, here: Position) -> bool:
    """Return whether a save must not replace the checkpoint that was restored last. The reason is logged.

    This is the case if the checkpoint has further tables, and no step has trained since the restore.

    Args:
        prefix: path ``directory/base-step`` of the save.
        here: current training position.
    """
    dropped = _Dropped.of(pipeline)
    if not dropped.tables or os.path.abspath(prefix) != dropped.prefix or pipeline.loaded is None:
        return False
    restored = pipeline.loaded[1]
    if restored.run_id != here.run_id or any(restored.tables.get(name) != at for name, at in here.tables.items()):
        return False
    _log.warning("%s is not saved again, because it also has these tables: %s. Nothing was trained since the restore",
                 prefix, ", ".join(dropped.tables))
    return True
