"""The protocol holds in small scenarios, and each planted flaw is found with a trace."""

import pytest

from tests.model.__main__ import main
from tests.model.explore import BROKEN, CYCLE, HOLDS, STUCK, TOO_LARGE, Move, System, Violation, explore
from tests.model.flaws import FLAWS
from tests.model.protocol import Protocol
from tests.model.sampling import sampled, sampled_scenarios
from tests.model.scenarios import FLAWED, LONG, SHORT, planted

#: flaws that break no invariant, but let a run not end
NOT_BROKEN = {
    "aside_after_finished": STUCK,
    "aside_revokes": STUCK,
    "finished_after_done": STUCK,
    "leave_unfetched": STUCK,
    "lease_per_table": STUCK,
    "revoke_everything": CYCLE,
}


class Steps(System):
    """Numbers with moves to other numbers: None breaks an invariant, and a text with "?" is an optional move."""

    def __init__(self, arrows, ends=()):
        self.arrows, self.ends = arrows, ends

    def start(self):
        return 0

    def moves(self, state):
        for arrow in self.arrows.get(state, ()):
            target, optional = (int(arrow[0]), True) if isinstance(arrow, str) else (arrow, False)
            yield Move("%s to %s" % (state, target), self.go, (target,), optional)

    def go(self, target):
        if target is None:
            raise Violation("there is no such number")
        return target

    def may_stop(self, state):
        return state in self.ends


def test_a_system_whose_runs_all_end_well_holds():
    report = explore(Steps({0: [1, 2], 1: [3], 2: [3]}, ends=(3,)))
    assert (report.verdict, report.states, report.moves, report.trace) == (HOLDS, 4, 4, ())


def test_a_broken_invariant_comes_with_a_shortest_path():
    report = explore(Steps({0: [1, 4], 1: [2], 2: [3], 3: [None], 4: [3]}))
    assert (report.verdict, report.trace) == (BROKEN, ("0 to 4", "4 to 3", "3 to None"))
    assert report.text().splitlines()[-1] == "=> broken: there is no such number"


def test_a_state_that_only_luck_leaves_is_stuck():
    report = explore(Steps({0: [1], 1: ["2?"]}, ends=(2,)))
    assert (report.verdict, report.trace) == (STUCK, ("0 to 1",))


def test_a_system_that_can_go_round_for_ever_is_found_out():
    report = explore(Steps({0: [1], 1: [2, 3], 2: [1]}, ends=(3,)))
    assert (report.verdict, report.trace) == (CYCLE, ("0 to 1",))


def test_a_search_that_grows_too_large_says_so():
    report = explore(Steps({number: [number + 1] for number in range(100)}, ends=(100,)), limit=10)
    assert report.verdict == TOO_LARGE


@pytest.mark.parametrize("name", sampled_scenarios(SHORT))
def test_the_protocol_holds(name):
    report = explore(Protocol(SHORT[name]))
    assert report.verdict == HOLDS, report.text()
    assert report.states > 500  # a scenario with very few states would prove nothing


@pytest.mark.parametrize("flaw", sampled(FLAWED))
def test_a_planted_flaw_is_caught(flaw):
    report = explore(Protocol(planted(flaw)))
    assert report.verdict == NOT_BROKEN.get(flaw, BROKEN)
    assert report.trace


def test_every_flaw_has_a_sentence_and_a_scenario():
    assert set(FLAWED) == set(FLAWS)


def test_names_of_scenarios_say_which_set_they_belong_to():
    assert not set(SHORT) & set(LONG)


def test_a_flaw_can_be_run_by_hand_and_prints_its_trace(capsys):
    assert main(["reuse_open"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "   1  pump: submits ticket 1"
    assert "=> broken: the close of ticket 1 marks a frame that was given away" in lines


def test_a_word_that_means_nothing_is_refused(capsys):
    assert main(["no such flaw"]) == 2
    assert "reuse_open" in capsys.readouterr().err
