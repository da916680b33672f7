"""The harness measures what it says, with a clock and cases of our own: nothing here depends on real time."""
import contextlib
import json

import pytest

from bench import __main__ as command
from bench import harness


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


def case(contenders, variants=("one",)):
    @contextlib.contextmanager
    def prepare(variant):
        yield contenders

    return harness.Case("made_up", "id", "one_thread", variants, prepare, "made up")


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
    compared = harness.compare(ours=[1, 10, 2], other=[2, 20, 6])
    assert (compared.least_ratio, compared.ratio, compared.most_ratio) == (2, 2, 3)


def test_a_result_names_the_first_contender_as_ours_and_survives_json():
    contenders = harness.Contenders(7, {"ours": lambda: None, "theirs": lambda: None})
    result = harness.run_variant(case(contenders), "one", repeats=3)
    assert (result.name, result.ours, list(result.baselines), result.units) == ("made_up/one", "ours", ["theirs"], 7)
    plain = json.loads(json.dumps(harness.as_json(result)))
    assert plain["timing"]["repeats"] == 3
    assert plain["baselines"]["theirs"]["timing"]["repeats"] == 3
    assert set(plain["baselines"]["theirs"]) == {"timing", "ratio", "least_ratio", "most_ratio"}


def test_the_text_of_a_result_says_unit_and_baseline():
    timing = harness.Timing(.001, .002, .003, 9)
    result = harness.Result("made_up/one", "id", "one_thread", 1000, "ours", timing,
                            {"theirs": harness.Compared(timing, 1.5, 1.2, 1.9)})
    head, ours, theirs = harness.text_of(result)
    assert head == "made_up/one  [1000 x id per call, one_thread, 9 rounds]"
    assert "2 us per id" in ours and "[1 ms..3 ms]" in ours
    assert theirs.endswith("1.50 x ours [1.20..1.90]")


@pytest.mark.parametrize("contenders", [harness.Contenders(0, {"a": lambda: None}), harness.Contenders(1, {})])
def test_a_case_without_work_is_refused(contenders):
    with pytest.raises(ValueError, match="made_up/one"):
        harness.run_variant(case(contenders), "one")


@pytest.mark.parametrize("seconds, text", [
    (0, "0 ns"), (2.5e-8, "25 ns"), (1e-6, "1 us"), (.0123, "12.3 ms"), (12.34, "12.3 s")])
def test_durations_are_written_with_their_unit(seconds, text):
    assert harness.duration(seconds) == text


def test_circumstances_say_machine_commit_versions_command_and_date():
    around = harness.circumstances()
    assert {"date", "command", "commit", "versions", "machine"} == set(around)
    assert around["machine"]["cores"] >= 1 and around["machine"]["memory_bytes"] > 0
    assert around["versions"]["numpy"] == "1.18.5"
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


def test_too_few_repeats_are_a_usage_error():
    with pytest.raises(SystemExit) as stopped:
        command.main(["--repeats", "3"])
    assert stopped.value.code == 2


def test_a_run_writes_its_results_with_their_circumstances(tmp_path, capsys):
    contenders = harness.Contenders(1, {"ours": lambda: None})
    path = tmp_path / "results.json"
    assert command.run([(case(contenders), "one")], 9, str(path)) == 0
    written = json.loads(path.read_text())
    assert [result["name"] for result in written["results"]] == ["made_up/one"]
    assert written["versions"]["python"].startswith("3.7")
    assert "made_up/one" in capsys.readouterr().out
