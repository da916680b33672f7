"""Which daemon a command speaks to where none is named, and what ``ascpipe list`` tells."""
import json

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import chosen, main, printing
from ascpipe.cli import list as list_verb
from ascpipe.errors import NoAnswerError, NotRunningError
from ascpipe.layout.ticket import SEQUENCE_BITS


@pytest.fixture
def running(monkeypatch):
    def are(*found):
        monkeypatch.setattr(chosen, "running_daemons", lambda: [*found])
        monkeypatch.setattr(chosen, "check_run_directory", lambda run: None)
        monkeypatch.setattr(chosen, "is_held", lambda run: run.name in found)
        monkeypatch.setattr(list_verb, "running_daemons", lambda: [*found])

    return are


def test_the_only_daemon_is_taken_and_named_on_stderr(running, capsys):
    running("private-7-0123456789ab")
    assert chosen.chosen(None).name == "private-7-0123456789ab"
    assert capsys.readouterr().err == "ascpipe: daemon 'private-7-0123456789ab', the only one that runs\n"


def test_the_default_daemon_is_taken_silently_whatever_else_runs(running, capsys):
    running("default", "other")
    assert chosen.chosen(None).name == "default"
    assert capsys.readouterr().err == ""


def test_of_several_daemons_none_is_taken_and_all_are_listed(running, capsys):
    running("a", "b")
    with pytest.raises(NotRunningError, match="'default'"):
        chosen.chosen(None)
    assert "running now: a, b (ascpipe status --name ...)" in capsys.readouterr().err


def test_a_name_that_was_given_is_never_replaced(running, monkeypatch):
    running("a")
    with pytest.raises(NotRunningError, match="'mine'"):
        chosen.chosen("mine")
    monkeypatch.setenv(names.NAME_VARIABLE, "theirs")
    with pytest.raises(NotRunningError, match="'theirs'"):
        chosen.chosen(None)


def answers(run, message, timeout_s):
    if run.name == "gone":
        raise NotRunningError(run.name, run.path)
    if run.name == "stopped":
        raise NoAnswerError(run.name, 7, "status", timeout_s)
    return {"state": "serving", "pid": 5, "private": True, "trainer": {"pid": 9}, "uptime_s": 61.0, "failure": None}


def test_list_has_a_line_for_each_daemon_also_for_one_that_does_not_answer(running, monkeypatch):
    running("gone", "mine", "stopped")
    monkeypatch.setattr(list_verb, "ask", answers)
    rows = [line.split() for line in CliRunner().invoke(main.main, ["list"]).output.splitlines()]
    assert ["mine", "serving", "5", "yes", "9", "1", "min", "1", "s"] in rows
    assert ["stopped", "does", "not", "answer", "-", "no", "-", "-"] in rows
    told = json.loads(CliRunner().invoke(main.main, ["list", "--json"]).output)
    assert [one["name"] for one in told] == ["mine", "stopped"]
    assert (told[0]["trainer"], told[0]["uptime_s"]) == (9, 61.0)
    assert "kill -CONT" in told[1]["problem"]


def test_where_none_runs_list_says_so_and_is_no_failure(running):
    running()
    done = CliRunner().invoke(main.main, ["list"])
    assert (done.exit_code, "no daemon of this user runs" in done.output) == (0, True)


@pytest.mark.parametrize("seconds, text", [
    (0.9, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (7500, "2 h 5 min"), (273600, "3 d 4 h")])
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert printing.duration(seconds) == text


def test_a_ticket_is_its_run_and_its_batch():
    assert printing.ticket_text((3 << SEQUENCE_BITS) + 117) == "3:117"
    assert printing.ticket_text(0) == "-"
