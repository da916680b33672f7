"""File that lists the last checkpoints of a session. The trainer writes this file, and the dashboard reads it."""
import json
import logging
import os
from typing import Any, Dict, List, NamedTuple, Optional

from ascpipe.names import RunDir

MOST_SAVES = 32  #: older entries are removed
FULL = "full"
DELTA = "delta"
KINDS = (FULL, DELTA, "")  #: kinds of checkpoints; the last one is unknown
_MOST_BYTES = 1 << 18
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger(__name__)


class Save(NamedTuple):
    """Complete checkpoint.

    Attributes:
        prefix: absolute path ``directory/base-step``.
        at: time at which the checkpoint was complete, in seconds since 1970.
        seconds: duration of the save.
        bytes: size of its files, or None if it is unknown.
        kind: ``full``, ``delta``, or an empty string if it is unknown.
    """

    prefix: str
    at: float
    seconds: float
    bytes: Optional[int] = None
    kind: str = ""


def note(run: RunDir, save: Save) -> None:
    """Add a checkpoint to the record. An earlier entry with the same checkpoint prefix is removed.

    If the file cannot be written, the record does not change. This is not an error: the checkpoint itself is complete.
    """
    kept = [one for one in read(run) if one.prefix != save.prefix][1 - MOST_SAVES:] + [save]
    beside = run.saves + ".new"
    try:
        with open(os.open(beside, _FLAGS, 0o600), "w") as file:
            json.dump([list(one) for one in kept], file)
        os.replace(beside, run.saves)
    except OSError as error:
        _log.debug("the dashboard will not show %s: %s", save.prefix, error)


def read(run: RunDir) -> List[Save]:
    """Return the recorded checkpoints, oldest first. Invalid entries are skipped. If the file is missing, the list is
    empty."""
    try:
        with open(run.saves, encoding="utf-8") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return []
    return [Save(str(one[0]), float(one[1]), float(one[2]), *one[3:]) for one in found if _is_valid(one)] \
        if isinstance(found, list) else []


def newest(run: RunDir) -> Optional[Dict[str, Any]]:
    """Return the newest checkpoint of the last session as a dict for JSON, or None if the session has saved none.

    ``checkpoint`` is its absolute path, and ``at`` the time at which it was complete, in seconds since 1970.
    """
    found = read(run)
    if not found:
        return None
    save = found[-1]
    return {"checkpoint": save.prefix, "at": save.at, "seconds": save.seconds, "bytes": save.bytes, "kind": save.kind}


def _is_valid(entry: Any) -> bool:
    return (isinstance(entry, list) and len(entry) == 5 and isinstance(entry[0], str)
            and all(isinstance(number, (int, float)) for number in entry[1:3])
            and (entry[3] is None or type(entry[3]) is int) and entry[4] in KINDS)
