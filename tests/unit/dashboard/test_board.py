"""The board asks a daemon and passes on what its viewers may ask for. The daemon is the test's."""
import json
import os
import socket

import pytest

from ascpipe import names
from ascpipe.control import saves
from ascpipe.control.saves import Save
from ascpipe.control.web import Request
from ascpipe.dashboard import board, ranks
from ascpipe.errors import NoAnswerError
from tests.support.statuses import status

TOKEN = "t" * 32


class Daemons:
    """Answers of daemons by name, instead of the control socket."""

    def __init__(self):
        self.told = {"unit": status()}

    def ask(self, run, body, timeout_s):
        if self.told.get(run.name) is None:
            raise NoAnswerError(run.name, 7, "status", timeout_s)
        return self.told[run.name]

    def running(self):
        return sorted(self.told)


@pytest.fixture
def daemons(monkeypatch, tmp_path):
    made = Daemons()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    os.makedirs(names.run_dir("unit").path)
    for module in (board, ranks):
        monkeypatch.setattr(module, "ask", made.ask)
    monkeypatch.setattr(ranks, "running_daemons", made.running)
    return made


@pytest.fixture
def shown(daemons):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4)
    made = board.Board(names.run_dir("unit"), listener, TOKEN)
    yield made
    made.close()


def get(shown, path, query=""):
    answer = shown._server._route(Request("GET", path, "token={}&{}".format(TOKEN, query)))
    return answer.status, json.loads(answer.body.decode()) if answer.status < 300 else answer.body.decode()


def looked(shown, times=1):
    for _ in range(times):
        shown._look()
        shown._tick()
    return get(shown, "/now")[1]


def test_the_page_has_the_status_of_the_daemon_as_the_command_prints_it(shown, daemons):
    told = looked(shown)
    assert told["status"] == {**daemons.told["unit"], "logs": names.run_dir("unit").path, "last_save": None}
    assert told["silent"] == "" and told["point"]["steps"] == 0.0
    assert len(get(shown, "/history")[1]["time"]) == 1
    assert len(get(shown, "/history", "table=user")[1]["time"]) == 1
    assert get(shown, "/history", "table=nobody")[0] == 404


def test_a_daemon_that_does_not_answer_leaves_a_gap_and_its_reason(shown, daemons):
    looked(shown)
    daemons.told["unit"] = None
    told = looked(shown, 2)
    assert "did not answer" in told["silent"] and "status" not in told
    history = get(shown, "/history")[1]
    assert history["bottleneck"][1:] == ["", ""] and history["series"]["steps"] == [0.0, None, None]
    daemons.told["unit"] = status()
    assert looked(shown)["silent"] == ""


def with_ranks(daemons):
    """The daemon is rank 1 of 4; ranks 0 and 3 are on this machine, too."""
    mine = daemons.told["unit"]["exchanges"]
    mine.update(rank=1, ranks=4)
    daemons.told["first"] = status("first", exchanges={**mine, "rank": 0})
    daemons.told["last"] = status("last", exchanges={**mine, "rank": 3}, trace={"since_ns": 5})
    return daemons


def later(told, seconds=2.0, **counted):
    """The answer some seconds later, in which counters of exchanges and the trained steps of a ring have grown."""
    steps = counted.pop("steps", 0)
    exchanges = {**told["exchanges"], **{name: told["exchanges"][name] + more for name, more in counted.items()}}
    rings = [{**ring, "trained": ring["trained"] + steps} for ring in told["rings"]]
    return {**told, "uptime_s": told["uptime_s"] + seconds, "exchanges": exchanges, "rings": rings}


def test_the_ranks_of_this_machine_come_in_their_order(shown, daemons):
    with_ranks(daemons)
    mine = daemons.told["unit"]["exchanges"]
    daemons.told["alone"] = status("alone", exchanges=None)
    daemons.told["silent"] = None
    daemons.told["other"] = status("other", exchanges={**mine, "rank": 2, "ranks": 8})
    found = looked(shown)["ranks"]
    assert [(one["rank"], one["daemon"]) for one in found] == [(0, "first"), (1, "unit"), (3, "last")]
    assert [one["rates"] for one in found] == [None, None, None]  # rates need two answers
    daemons.told["unit"]["exchanges"] = None
    assert looked(shown)["ranks"] == []


def test_each_rank_has_rates_and_a_history_of_its_own(shown, daemons):
    with_ranks(daemons)
    looked(shown)
    for name, counted in (("first", {"bytes_sent": 4000, "steps": 20}), ("unit", {"waited_s": 0.5, "steps": 20}),
                          ("last", {"waited_s": 1.0, "time_s": 1.5})):
        daemons.told[name] = later(daemons.told[name], **counted)
    rates = {one["rank"]: one["rates"] for one in looked(shown)["ranks"]}
    nothing = {"steps": 0.0, "sent_bytes": 0.0, "received_bytes": 0.0, "exchanging": 0.0, "waited": 0.0}
    assert rates == {0: {**nothing, "steps": 10.0, "sent_bytes": 2000.0}, 1: {**nothing, "steps": 10.0, "waited": 0.25},
                     3: {**nothing, "waited": 0.5, "exchanging": 0.75}}
    history = get(shown, "/history", "ranks=all")[1]
    assert len(history["time"]) == 2 and history["series"]["sent_bytes 0"] == [None, 2000.0]
    assert history["series"]["waited 3"] == [None, 0.5] and len(history["series"]) == 9
    daemons.told["first"] = {**daemons.told["first"], "trainer": {"pid": 1, "since": "noon", "run": 45}}
    assert looked(shown)["ranks"][0]["rates"] is None  # another run


def test_the_timeline_has_the_ranks_that_record_spans(shown, daemons, monkeypatch):
    with_ranks(daemons)
    looked(shown)
    asked = []
    monkeypatch.setattr(shown._lookups, "output", lambda arguments, fresh_s: asked.append(arguments))
    get(shown, "/timeline")
    assert asked[0][:5] == ["timeline", "--name", "unit", "--name", "last"]


@pytest.mark.parametrize("path, query", [
    ("/hotkeys", "table=nobody"), ("/hotkeys", ""), ("/hotkeys", "table=--help"), ("/verify", "checkpoint=/etc/passwd"),
    ("/verify", "checkpoint=/a/b-1/../b-1"), ("/verify", "")])
def test_only_tables_and_checkpoints_of_the_session_are_read(shown, path, query):
    saves.note(names.run_dir("unit"), Save("/a/b-1", 1.0, 2.0))
    looked(shown)
    assert get(shown, path, query)[0] == 404
    assert shown._lookups.wait_s() is None


def test_what_takes_long_is_a_command_that_is_run_once_for_all_viewers(shown, monkeypatch):
    asked = []
    monkeypatch.setattr(shown._lookups, "output", lambda arguments, fresh_s: asked.append(arguments))
    run = names.run_dir("unit")
    saves.note(run, Save("/a/b-1", 1.0, 2.0))
    looked(shown)
    for path, query in (("/hotkeys", "table=user"), ("/timeline", ""), ("/checkpoints", ""),
                        ("/verify", "checkpoint=/a/b-1")):
        assert get(shown, path, query) == (202, {"pending": True})
    assert [one[:2] for one in asked] == [
        ["hotkeys", "--name"], ["timeline", "--name"], ["checkpoint", "list"], ["checkpoint", "verify"]]
    assert asked[0][-2:] == ["--", "user"] and asked[2][-1] == "/a" and asked[3][-1] == "/a/b-1"
