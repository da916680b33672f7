"""The trace of a run shows the exchanges of each rank, in rows of their own."""
import glob
import json
import os

import pytest

from ascpipe import names
from tests.support import ranked_runs
from tests.support.commands import ascpipe
from tests.support.several_ranks import needs_horovod
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pytest.mark.timeout_s(150)]

STEPS = 20  # at least, in the trace
CASE = {"tables": {"user": {}, "item": {"dim": 4}}, "steps": 100000,
        "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}}


def traced(pids, path):
    """The events of the daemons of these trainers; None: they are not there yet, or have done nothing."""
    found = [glob.glob(os.path.join(names.base_dir(), "private-{}-*".format(pid))) for pid in pids]
    if not all(found):
        return None
    options = [word for one in found for word in ("--name", os.path.basename(one[0]))]
    asked = ascpipe("timeline", "--output", path, *options)
    if asked.returncode:
        return None
    with open(path) as file:
        return json.load(file)["traceEvents"]


def rows_of(events):
    """name of a row -> (pid, its events)."""
    return {event["args"]["name"]: (event["pid"], [other for other in events if other["ph"] == "X" and
                                                   other["pid"] == event["pid"]])
            for event in events if event["name"] == "process_name"}


def exchanges_of(events):
    """Those of each of two ranks; None: not all have made some."""
    rows = rows_of(events or [])
    found = [rows.get("ascpipe exchanges of rank {}".format(rank), (0, []))[1] for rank in range(2)]
    return found if min(map(len, found)) > 2 * STEPS else None


def test_the_trace_of_two_ranks_shows_the_same_exchanges_twice_a_step(tmp_path):
    launched = ranked_runs.begin(tmp_path / "run", 2, CASE, timeline_spans=20000)
    try:
        pids = [wait_until(lambda rank=rank: os.path.exists(str(tmp_path / "run" / "{}.pid".format(rank))) and
                           ranked_runs.pid_of(tmp_path / "run", rank), 60.0) for rank in range(2)]
        trace = str(tmp_path / "trace.json")
        wait_until(lambda: exchanges_of(traced(pids, trace)), 60.0)
    finally:
        launched.terminate()
        launched.wait(60.0)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    rows = rows_of(events)
    assert [rows["ascpipe exchanges of rank {}".format(rank)][0] for rank in range(2)] == pids
    assert all(rows["ascpipe table worker 0 of rank {}".format(rank)][1] for rank in range(2))

    found = exchanges_of(events)
    for mine in found:
        assert [one["args"]["sequence"] for one in mine] == list(range(1, len(mine) + 1))
        assert all(one["ts"] + one["dur"] <= later["ts"] for one, later in zip(mine, mine[1:]))
    both = list(zip(*found))  # one file was read a little later
    for one, other in both:
        assert max(one["ts"], other["ts"]) <= min(one["ts"] + one["dur"], other["ts"] + other["dur"])
        assert one["args"]["bytes_sent"] == other["args"]["bytes_received"] > 0
        assert other["args"]["bytes_sent"] == one["args"]["bytes_received"] > 0
        assert one["args"]["last"] == other["args"]["last"]
    assert {one["args"]["last"] for one, _ in both} >= {None, 0, 1}
    # Ranks that say different things say them again, such as where one was idle.
    agreed = [one["args"] for one, other in both if one["name"] == other["name"]]
    for kind in ("forward", "backward"):
        tickets = [one["ticket"] for one in agreed if one["kind"] == kind]
        assert tickets == list(range(1, len(tickets) + 1))
        assert len(tickets) >= STEPS // 2
    steps = [(one["kind"], one["ticket"]) for one in agreed if one["kind"] in ("forward", "backward")]
    assert all(one[0] == "forward" and other == ("backward", one[1]) for one, other in zip(steps[::2], steps[1::2]))
