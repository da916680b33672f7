"""Functions that summarize the activity of a daemon during an interval, and the state of a worker."""
from typing import Any, Dict, List

from ascpipe.figures.rates import COMPILING, INPUT, bottleneck, rates, waiting
from ascpipe.figures.reading import reading_rates, slow_input

_OVER = ("failed", "stopped")  # states in which a daemon starts no worker


def summary(looks: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return a dict with the ``rates`` in an interval, the fraction of time during which the step waited, and the
    bottleneck.

    ``reading`` has the rates of ``asc.data.read``. ``slow_input`` is the slow part of the input, or None if the input
    is not the bottleneck.
    """
    found = bottleneck(looks)
    return {**rates(looks[0], looks[-1]), "step_waits": waiting(looks), "bottleneck": found,
            "reading": reading_rates(looks[0], looks[-1]), "slow_input": slow_input(looks) if found == INPUT else None}


def limit(told: Dict[str, Any]) -> str:
    """Return the bottleneck as text. If the bottleneck is the input, the text also contains the slow part of the input.
    """
    return ": ".join([told["bottleneck"], *filter(None, [told["slow_input"]])])


def state_of(worker: Dict[str, Any], status: Dict[str, Any]) -> str:
    """Return a worker's state as text, given an answer to ``status``. A worker without a PID is starting, unless the
    daemon has failed or stopped.
    """
    daemon = status["state"]
    if worker["hangs_s"] > 0:
        return "has made no progress for {:.0f} s".format(worker["hangs_s"])
    if worker["attached"]:
        return "working"
    if status.get("compiling") and daemon not in _OVER:
        return COMPILING
    if not worker["pid"]:
        return "not running" if daemon in _OVER else "starting"
    return "starting" if daemon == "serving" else "idle"
