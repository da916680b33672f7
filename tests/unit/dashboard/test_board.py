"""The board asks a daemon and passes on what its viewers may ask for. The daemon is the test's."""
import json
import os
import socket

import pytest

from ascpipe import names
from ascpipe.control import saves
from ascpipe.control.saves import Save
from ascpipe.control.web import Request
from ascpipe.dashboard import board
from ascpipe.errors import NoAnswerError
from tests.support.statuses import status

TOKEN = "t" * 32


class Daemons:
    """Answers of daemons by name, instead of the control socket."""

    def __init__(self):
        self.told = {"unit": status()}

    def ask(self, run, body, timeout_s):
        if self.told.get(run.name) is None:
            raise NoAnswerError(run.name, "status", timeout_s)
        return self.told[run.name]

    def running(self):
        return sorted(self.told)


@pytest.fixture
def daemons(monkeypatch, tmp_path):
    made = Daemons()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    os.makedirs(names.run_dir("unit").path)
    monkeypatch.setattr(board, "ask", made.ask)
    monkeypatch.setattr(board, "running_daemons", made.running)
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
    assert told["status"] == {**daemons.told["unit"], "logs": names.run_dir("unit").path}
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


def test_the_ranks_of_this_machine_come_in_their_order(shown, daemons):
    mine = daemons.told["unit"]["exchanges"]
    mine.update(rank=1, ranks=4)
    daemons.told["first"] = status("first", exchanges={**mine, "rank": 0})
    daemons.told["last"] = status("last", exchanges={**mine, "rank": 3})
    daemons.told["alone"] = status("alone", exchanges=None)
    daemons.told["silent"] = None
    daemons.told["other"] = status("other", exchanges={**mine, "rank": 2, "ranks": 8})
    assert [(one["rank"], one["daemon"]) for one in looked(shown)["ranks"]] == [(0, "first"), (1, "unit"), (3, "last")]
    daemons.told["unit"]["exchanges"] = None
    assert looked(shown)["ranks"] == []


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
