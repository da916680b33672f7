"""The harness measures what it says, with a clock and cases of our own: nothing here depends on real time."""
import contextlib
import json
import platform

import numpy as np
import pytest

from bench import __main__ as command
from bench import circumstances, goals, harness, records
from bench.cases import APART


class Clock:
    """A clock that only calls advance."""

    def __init__(self):
        self.now_s = 0.0
        self.log = []

    def __call__(self):
        return self.now_s

    def call(self, name, *durations_s):
        """A call that takes these times, one after the other, and then the last one for ever."""
        left = list(durations_s)

        def work():
            self.log.append(name)
            self.now_s += left.pop(0) if len(left) > 1 else left[0]

        return work


def case(contenders, variants=("one",), **fields):
    @contextlib.contextmanager
    def prepare(variant):
        yield contenders

    return harness.Case("made_up", "id", "one_thread", variants, prepare, "made up", **fields)


def test_contenders_take_turns_after_their_warm_up():
    clock = Clock()
    contenders = harness.Contenders(1, {"a": clock.call("a", 1), "b": clock.call("b", 1)})
    harness.measure(contenders, warm_up=1, repeats=3, clock=clock)
    assert clock.log == ["a", "b", "a", "b", "a", "b", "a", "b"]


def test_warm_up_calls_are_not_timed():
    clock = Clock()
    contenders = harness.Contenders(1, {"a": clock.call("a", 100, 100, 1, 2, 3)})
    assert harness.measure(contenders, warm_up=2, repeats=3, clock=clock) == {"a": [1, 2, 3]}


def test_what_is_done_before_a_call_is_not_timed():
    clock = Clock()
    calls = {"a": clock.call("a", 1), "b": clock.call("b", 2)}
    contenders = harness.Contenders(1, calls, {"b": clock.call("lead", 50)})
    seconds = harness.measure(contenders, warm_up=0, repeats=2, clock=clock)
    assert seconds == {"a": [1, 1], "b": [2, 2]}
    assert clock.log == ["a", "lead", "b"] * 2


def test_a_summary_has_least_median_and_most():
    assert harness.summary([5, 1, 3]) == harness.Timing(1, 3, 5, 3)
    assert harness.summary([4, 1, 3, 2]) == harness.Timing(1, 2.5, 4, 4)


def test_no_times_cannot_be_summarised():
    with pytest.raises(ValueError, match="no times"):
        harness.summary([])


def test_ratios_are_taken_within_rounds_so_that_a_slow_round_of_both_cancels_out():
    assert harness.compare(ours=[1, 10, 2], other=[2, 20, 6]).ratio == 2


def test_what_ours_takes_more_is_taken_within_rounds_too():
    assert harness.compare(ours=[3, 30, 4], other=[1, 29, 6]).over_s == 1


def test_a_contender_with_a_clock_of_its_own_is_timed_by_that():
    wall, own = Clock(), Clock()
    contenders = harness.Contenders(1, {"a": wall.call("a", 1), "b": own.call("b", 5)}, clocks={"b": own})
    assert harness.measure(contenders, warm_up=0, repeats=1, clock=wall) == {"a": [1], "b": [5]}


def measured(*limits, own_s=1.0, other_s=4.0):
    """A result with these goals, of calls that take so long by clocks of their own."""
    clocks = {"ours": Clock(), "theirs": Clock()}
    calls = {"ours": clocks["ours"].call("ours", own_s), "theirs": clocks["theirs"].call("theirs", other_s)}
    contenders = harness.Contenders(2, calls, clocks=clocks, notes=lambda: {"memory": "48 bytes"}, memory=48)
    return harness.run_variant(case(contenders, goals={"one": limits}), "one", repeats=3)


def test_a_result_names_the_first_contender_as_ours_and_becomes_a_record_that_is_complete_in_itself():
    result = measured(goals.Goal(goals.RATIO, 3, "theirs"))
    assert (result.name, result.ours, list(result.baselines), result.units) == ("made_up/one", "ours", ["theirs"], 2)
    plain = json.loads(json.dumps(records.record(result, circumstances.now())))
    assert set(plain) == records.FIELDS
    assert (plain["case"], plain["unit"], plain["repeats"]) == ("made_up", "s per id", 3)
    assert (plain["ours"], plain["peers"], plain["ratio"]) == (.5, {"theirs": 2.0}, {"theirs": 4.0})
    assert plain["spread"] == {"ours": [.5, .5], "theirs": [2.0, 2.0]}
    assert plain["goal"] == [{"measure": "ratio", "peer": "theirs", "limit": 3, "reached": 4.0, "met": True}]
    assert plain["notes"] == {"memory": "48 bytes"}


@pytest.mark.parametrize("goal, reached, met", [
    (goals.Goal(goals.RATIO, 4, "theirs"), 4, True), (goals.Goal(goals.RATIO, 4.1, "theirs"), 4, False),
    (goals.Goal(goals.SHARE, .25, "theirs"), .25, True), (goals.Goal(goals.SHARE, .2, "theirs"), .25, False),
    (goals.Goal(goals.OVER, -1.5, "theirs"), -1.5, True), (goals.Goal(goals.OVER, -1.6, "theirs"), -1.5, False),
    (goals.Goal(goals.RATE, 2), 2, True), (goals.Goal(goals.RATE, 3), 2, False),
    (goals.Goal(goals.COST, .5), .5, True), (goals.Goal(goals.COST, .4), .5, False),
    (goals.Goal(goals.COUNT, .5), .5, True), (goals.Goal(goals.COUNT, .4), .5, False),
    (goals.Goal(goals.MEMORY, 48), 48, True), (goals.Goal(goals.MEMORY, 47), 48, False),
    (goals.Goal(goals.RANGE, 4), 4, True), (goals.Goal(goals.RANGE, 3.9), 4, False)])
def test_whether_a_goal_is_met_follows_from_what_was_measured(goal, reached, met):
    (kept, value), = measured(goal).reached
    assert (kept, value, goals.is_met(kept, value)) == (goal, reached, met)


@pytest.mark.parametrize("measure", [goals.RATIO, goals.SHARE, goals.OVER])
def test_a_goal_that_compares_with_nobody_who_was_measured_is_refused(measure):
    with pytest.raises(ValueError, match="'nobody'"):
        measured(goals.Goal(measure, 2, "nobody"))


def test_the_table_has_a_row_for_each_peer_and_goal_with_its_mark():
    result = measured(goals.Goal(goals.RATIO, 3, "theirs"), goals.Goal(goals.RATE, 1e6))
    _, columns, rows = records.table([records.record(result, circumstances.now())])
    texts = [dict(zip(columns, row)) for row in rows]
    assert [text["case"] for text in texts] == ["made_up/one", ""]
    assert (texts[0]["peer"], texts[0]["x ours"]) == ("theirs", "4.00")
    assert [(text["goal"], text["reached"], text["mark"]) for text in texts] == [
        (">= 3 x", "4 x", "pass"), (">= 1 M ids/s", "2 ids/s", "falls short")]


def test_what_is_counted_is_no_time():
    clock = Clock()
    contenders = harness.Contenders(2, {"ours": clock.call("ours", 7)}, clocks={"ours": clock})
    result = harness.run_variant(case(contenders, goals={"one": [goals.Goal(goals.COUNT, 5)]}, quantity="wake-ups"),
                                 "one", repeats=1)
    plain = records.record(result, circumstances.now())
    assert plain["unit"] == "wake-ups per id"
    assert records.text_of(plain) == "made_up/one  3.5 wake-ups per id; 3.5 per id (<= 5 per id): pass"
    _, columns, (row,) = records.table([plain])
    assert dict(zip(columns, row))["ours"] == "3.5 wake-ups [3.5 wake-ups..3.5 wake-ups]"


def test_two_goals_beside_one_peer_have_a_row_each():
    result = measured(goals.Goal(goals.RATIO, 3, "theirs"), goals.Goal(goals.OVER, 1.5e-4, "theirs"),
                      goals.Goal(goals.COST, 1), own_s=4.0006, other_s=4.0)
    _, columns, rows = records.table([records.record(result, circumstances.now())])
    texts = [dict(zip(columns, row)) for row in rows]
    assert [(text["case"], text["peer"]) for text in texts] == [("made_up/one", "theirs"), ("", ""), ("", "")]
    assert [(text["goal"], text["reached"], text["mark"]) for text in texts[1:]] == [
        ("<= 150 us more per id", "300 us more per id", "falls short"),
        ("<= 1 s per id", "2 s per id", "falls short")]


def test_a_document_gets_the_same_table_below_where_and_when_it_was_measured():
    plain = records.record(measured(goals.Goal(goals.RATIO, 3, "theirs")), circumstances.now())
    where, _, head, rule, row = records.markdown([plain])
    assert where.startswith("`{}`, {}, commit {}, ".format(plain["command"], plain["date"], plain["commit"]))
    assert head.count("|") == rule.count("|") == row.count("|")
    assert "| theirs | 2 s | 4.00 | >= 3 x | 4 x | pass |" in row


def test_of_a_run_with_small_sizes_no_goal_is_judged():
    plain = records.record(measured(goals.Goal(goals.RATE, 1)), circumstances.now(), small=True)
    assert plain["goal"] == [] and plain["params"]["small"]


@pytest.mark.parametrize("repeats, rounds", [(None, 2), (3, 3)])
def test_a_case_or_variant_that_needs_fewer_rounds_gets_them_unless_the_command_says_how_many(repeats, rounds):
    clock = Clock()
    contenders = harness.Contenders(1, {"a": clock.call("a", 1)}, clocks={"a": clock})
    for made_up in (case(contenders, repeats=2), case(contenders, repeats=5, repeats_of={"one": 2, "two": 4})):
        assert harness.run_variant(made_up, "one", repeats=repeats).timing.repeats == rounds


@pytest.mark.parametrize("contenders", [harness.Contenders(0, {"a": lambda: None}), harness.Contenders(1, {})])
def test_a_case_without_work_is_refused(contenders):
    with pytest.raises(ValueError, match="made_up/one"):
        harness.run_variant(case(contenders), "one")


@pytest.mark.parametrize("seconds, text", [
    (0, "0 ns"), (2.5e-8, "25 ns"), (1e-6, "1 us"), (-.0004, "-400 us"), (.0123, "12.3 ms"), (12.34, "12.3 s")])
def test_durations_are_written_with_their_unit(seconds, text):
    assert goals.duration(seconds) == text


def test_circumstances_say_machine_commit_versions_command_and_date():
    around = circumstances.now()
    assert {"date", "command", "commit", "versions", "machine"} == set(around)
    assert around["machine"]["cores"] >= 1 and around["machine"]["memory_bytes"] > 0
    assert around["versions"]["numpy"] == np.__version__
    assert around["date"].endswith(" UTC")
    json.dumps(around)


def test_every_case_says_its_unit_and_the_list_shows_each_variant_once(capsys):
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert len(names) == len(set(names)) >= 5
    assert all(" per " in line for line in lines)


def test_a_pattern_picks_variants_and_one_that_picks_none_is_a_usage_error(capsys):
    assert command.main(["--list", "--pattern", "dedup/zipf*"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["dedup/zipf-1.05", "dedup/zipf-1.2"]
    with pytest.raises(SystemExit) as stopped:
        command.main(["--pattern", "nothing*"])
    assert stopped.value.code == 2


def test_what_takes_long_is_listed_and_is_measured_where_a_pattern_names_it(monkeypatch, capsys):
    chosen = []
    monkeypatch.setattr(command, "run", lambda found, *_, **__: chosen.append(
        {name for one, variant in found for name in (one.name, "{}/{}".format(one.name, variant))}) or [])
    command.main([])
    command.main(["--pattern", "cells/1x64-dim-8-*", "--pattern", "idle/*", "--pattern", "startup"])
    assert not chosen[0] & set(APART) and {"train", "scale", "startup/private"} < chosen[0]
    assert {"cells/1x64-dim-8-host", "idle", "startup/private", "startup/columns"} < chosen[1]
    assert not chosen[1] & {"train", "cells/4x64-dim-8-host"}
    assert command.main(["--list"]) == 0
    names = {line.split(" ")[0] for line in capsys.readouterr().out.splitlines()}
    assert set(APART) < names | {name.split("/")[0] for name in names}


def test_too_few_repeats_are_a_usage_error():
    with pytest.raises(SystemExit) as stopped:
        command.main(["--repeats", "3"])
    assert stopped.value.code == 2


def test_a_run_writes_its_records_with_their_circumstances(tmp_path, capsys):
    contenders = harness.Contenders(1, {"ours": lambda: None})
    path = tmp_path / "results.json"
    command.run([(case(contenders), "one")], 9, str(path))
    record, = records.load(str(path))
    assert records.name_of(record) == "made_up/one"
    assert record["versions"]["python"] == platform.python_version()
    assert "made_up/one" in capsys.readouterr().out


def test_every_goal_is_one_of_a_variant_that_there_is():
    for case_of_goals in {case_.name: case_ for case_, _ in command.selected("*")}.values():
        assert set(case_of_goals.goals) <= set(case_of_goals.variants), case_of_goals.name
