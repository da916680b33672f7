"""Several daemons of one name begin at the same time: one serves, the others are refused."""
import os

import pytest

from ascpipe import names
from ascpipe.control import launch, messages
from ascpipe.control.client import ask
from ascpipe.control.launch import Launched
from ascpipe.errors import AlreadyRunsError
from tests.support.daemons import use_standins

AT_ONCE = 5


def outcome(launching):
    """What became of one that was launched: it serves, or why not."""
    try:
        return launching.wait()
    except AlreadyRunsError as error:
        return error


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=[pytest.mark.long, pytest.mark.timeout_s(600)])])
@pytest.mark.parametrize("left_behind", ["nothing", "the files of a dead one"])
def test_of_daemons_of_one_name_that_begin_at_once_one_serves_and_the_others_are_refused(
        rounds, left_behind, monkeypatch):
    use_standins(monkeypatch)
    for number in range(rounds):
        outcomes = [outcome(each) for each in [launch.Launching("unit") for _ in range(AT_ONCE)]]
        winners = [each for each in outcomes if isinstance(each, Launched)]
        assert len(winners) == 1
        assert all("E211" in str(each) for each in outcomes if each not in winners)
        assert ask(names.run_dir("unit"), messages.Status())["pid"] == winners[0].pid
        if left_behind == "nothing" or number == rounds - 1:
            ask(names.run_dir("unit"), messages.Stop())
        else:
            os.kill(winners[0].pid, 9)
        winners[0].process.wait(20)
