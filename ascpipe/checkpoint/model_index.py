"""Two index files that list the checkpoints of a directory, for other programs.

ascpipe updates the files after a checkpoint is complete, and reads them only for this update.
"""
import json
import logging
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.checkpoint.paths import place_of
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.checkpoint.tree import open_place

INDEX = "model_index.json"
DELTA_TIMES = "delta_export_time_ms.json"

_MAX_BYTES = 16 << 20
_BASE = "base"
_DELTA = "delta"
_TAGS = {_BASE: "DueTime", _DELTA: "Seconds"}  #: kind of checkpoint -> ``export_tag``, the name of its save interval
_log = logging.getLogger(__name__)


def note_saved(prefix: str, *, cost_s: float) -> None:
    """Add a complete checkpoint to the index files, and drop entries of removed checkpoints. A failure is only logged.

    Args:
        cost_s: duration of the save in seconds.
    """
    try:
        _note_saved(prefix, cost_s)
    except (OSError, CheckpointError) as error:
        _log.warning("checkpoint %s is complete, but %s was not updated: %s", prefix, INDEX, error)


def _note_saved(prefix: str, cost_s: float) -> None:
    place = place_of(prefix)
    there: Dict[str, Tuple[str, Optional[int]]] = {
        found.prefix: (_DELTA if found.is_delta else _BASE, found.step)
        for found in complete_checkpoints(place.directory)}
    mine = there.pop(os.path.join(place.directory, place.stem), None)
    if mine is None:
        return  # another process removed the checkpoint
    kind, step = mine
    now_s = time.time()
    with disk.closing(open_place(place)) as directory_fd:
        entries: List[Dict[str, Any]] = [
            entry for entry in _read(directory_fd, INDEX, list) if isinstance(entry, dict)
            and (entry.get("type"), entry.get("global_step")) in list(there.values())]
        entries.append({"timestamp": int(now_s), "export_tag": _TAGS[kind], "type": kind, "global_step": step,
                        "cost_ms": int(1e3 * cost_s)})
        known = {**_read(directory_fd, DELTA_TIMES, dict), _delta_name(mine): int(1e3 * now_s)}
        deltas = [_delta_name(one) for one in [*there.values(), mine] if one[0] == _DELTA]
        times = {name: known[name] for name in deltas if name in known}
        for name, content in ((INDEX, entries), (DELTA_TIMES, times)):
            disk.replace_file(directory_fd, name, (json.dumps(content, indent=1) + "\n").encode("ascii"))


def _delta_name(one: Tuple[str, Optional[int]]) -> str:
    return "{}_{}".format(*one)


def _read(directory_fd: int, name: str, kind: type) -> Any:
    """Return the content of an index file, or an empty list or dict (``kind``) if the file is missing or malformed."""
    try:
        content = json.loads(disk.read_file(directory_fd, name, _MAX_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return kind()
    except (ValueError, RecursionError) as error:
        _log.warning("%s cannot be read (%s) and is replaced by a new one", name, error)
        return kind()
    return content if isinstance(content, kind) else kind()
