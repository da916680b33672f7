"""Function ``rank_rates``, which computes the rates of one rank from two answers of its daemon to ``status``."""
from typing import Any, Dict, Mapping, Optional

Status = Mapping[str, Any]


def rank_rates(before: Status, after: Status) -> Optional[Dict[str, float]]:
    """Return the rates of a rank between two answers of its daemon.

    Returns:
        ``steps``, ``sent_bytes`` and ``received_bytes`` per second; ``exchanging``: share of time in exchanges with
        other ranks; ``waited``: share of time until the last rank joined an exchange. None if there is only one rank,
        or if the answers belong to different runs.
    """
    old = before["exchanges"]
    new = after["exchanges"]
    seconds = after["uptime_s"] - before["uptime_s"]
    if old is None or new is None or seconds <= 0 or _run(before) != _run(after):
        return None
    return {"steps": max(0, _steps(after) - _steps(before)) / seconds,
            **{name: max(0, new[field] - old[field]) / seconds for name, field in (
                ("sent_bytes", "bytes_sent"), ("received_bytes", "bytes_received"))},
            **{name: min(1.0, max(0.0, new[field] - old[field]) / seconds) for name, field in (
                ("exchanging", "time_s"), ("waited", "waited_s"))}}


def _steps(status: Status) -> int:
    return sum(int(ring["trained"]) for ring in status["rings"] if ring["channel"] == "train")


def _run(status: Status) -> Optional[int]:
    trainer = status["trainer"]
    return None if trainer is None else trainer["run"]
