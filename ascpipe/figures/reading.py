"""Functions that compute the rates of ``asc.data.read``, and find out which part of the input is slow."""
from typing import Any, Dict, Mapping, Optional, Sequence

Status = Mapping[str, Any]

OWN_PIPELINE = "the program's own tf.data pipeline"
LATER_STAGES = "the stages after asc.data.read, such as map and transform="

_COUNTERS = ("records", "bytes", "batches", "skipped")
_TIMES = ("read_s", "parse_s", "full_s", "waited_s")
_LIMITS = 0.5  # asc.data.read limits the speed if the program waits for it for at least this share of the time
_BUSY = 0.8  # readers are saturated if they are busy for at least this share of the time
_BY_READING = 0.5  # reading is mentioned if it takes at least this share of the busy time


def reading_rates(before: Status, after: Status) -> Optional[Dict[str, float]]:
    """Return the rates of a trainer's readers between two answers to ``status``, or None if there are no readers.

    Returns:
        ``readers`` at the end. ``records``, ``bytes``, ``batches`` and ``skipped`` per second. ``busy``: share of time
        in which a reader reads or parses; ``reading``: share of reading in ``busy``; ``full``: share of time in which a
        reader waits because ``read_ahead`` batches are ready. ``waited``: share of time in which the program waits.
    """
    new = after.get("reading")
    seconds = after["uptime_s"] - before["uptime_s"]
    if new is None or seconds <= 0:
        return None
    old = before.get("reading") or {} if _run(before) == _run(after) else {}
    done = {name: max(0.0, new[name] - old.get(name, 0)) for name in (*_COUNTERS, *_TIMES)}
    readers = max(new["readers"], old.get("readers", 0))
    worked = done["read_s"] + done["parse_s"]
    return {
        "readers": new["readers"], **{name: done[name] / seconds for name in _COUNTERS},
        "busy": _share(worked, seconds * readers), "reading": _share(done["read_s"], worked),
        "full": _share(done["full_s"], seconds * readers), "waited": _share(done["waited_s"], seconds)}


def slow_input(looks: Sequence[Status]) -> str:
    """Return text that says which part of the input is slow. Call the function only if the bottleneck is the input.

    ``asc.data.read`` is slow if the program waits for its batches at least half of the time.

    Args:
        looks: answers of one daemon, oldest first.
    """
    told = reading_rates(looks[0], looks[-1])
    if told is None or told["readers"] + told["batches"] == 0:
        return OWN_PIPELINE
    busy = "readers busy {:.0f} %".format(100 * told["busy"])
    if told["waited"] < _LIMITS:
        return "{} ({})".format(LATER_STAGES, busy)
    if told["busy"] < _BUSY:
        return "asc.data.read ({}; more read_ahead= may help)".format(busy)
    if told["reading"] >= _BY_READING:
        busy += ", {:.0f} % of it in reads".format(100 * told["reading"])
    return "asc.data.read ({}; more readers= may help)".format(busy)


def _run(status: Status) -> Optional[int]:
    trainer = status["trainer"]
    return None if trainer is None else trainer["run"]


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0
