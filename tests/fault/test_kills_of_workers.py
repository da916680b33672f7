"""Workers are killed while training and evaluation go on; every lookup is as if nothing had happened."""
import os
import sys

import numpy as np
import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


@pytest.mark.smoke
def test_workers_are_killed_while_training_goes_on_also_between_a_claim_and_its_retirement():
    killed, between = running.run("deaths", "killed_workers:table+key,4", "killed_between_plan_and_retire:3",
                                  ring_frames=16)
    assert killed["restarts"] == {"table": 2, "key": 2}
    assert not any(killed["late"].values())
    assert between["in_between"] > 0


def test_workers_are_killed_while_rows_change_between_steps():
    (told,) = running.run("deaths", "killed_workers_and_changed_rows:table+key,4", ring_frames=16)
    assert told["killed"] == 4 and told["changes"] >= 12


@pytest.mark.long
@pytest.mark.timeout_s(2000)
def test_workers_are_killed_200_times_while_rows_change_between_steps():
    for seed in range(25):
        (told,) = running.run("deaths", "killed_workers_and_changed_rows:table+key,8,{}".format(seed), ring_frames=16)
        assert told["killed"] == 8


@pytest.mark.long
@pytest.mark.parametrize("kind", ["table", "key"])
def test_a_worker_that_dies_again_and_again_ends_the_run_with_a_code(kind):
    (crashed,) = running.run("deaths", "crash_loop:" + kind)
    assert "E140: {} worker 0".format(kind) in crashed["text"]
    assert crashed["killed"] == 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("frames", [2, 64])
def test_workers_are_killed_at_other_moments(frames, seed):
    (killed,) = running.run("deaths", "killed_workers:table+key,10,{}".format(seed), ring_frames=frames)
    assert sum(killed["restarts"].values()) == 10


KILLS = int(os.environ.get("TEST_KILLS", "1000"))  #: of both long forms together
# of a session: a worker that is killed for the third time in a minute is replaced half a second later, and so on
WORKERS, TEMPLATE = "table+key+table+key", "template+table+key+table+key"


@pytest.mark.parametrize("kinds, kills", [
    (WORKERS, 4), (TEMPLATE, 5),
    pytest.param(WORKERS, KILLS * 4 // 5, marks=[pytest.mark.long, pytest.mark.timeout_s(200 + 8 * KILLS)]),
    pytest.param(TEMPLATE, KILLS // 5, marks=[pytest.mark.long, pytest.mark.timeout_s(200 + 8 * KILLS)])])
def test_a_thousand_kills_change_no_lookup_and_training_goes_on_soon(kinds, kills, seed):
    recovered_s, of_a_session = [], kinds.count("+") + 1
    seeds = range(seed, seed + -(-kills // of_a_session))
    for first in seeds[::5]:  # a process and its daemon have five sessions, one after the other
        scenarios = ["killed_workers:{},{},{}".format(kinds, of_a_session, each % 2 ** 32)
                     for each in seeds if first <= each < first + 5]
        for told in running.run("deaths", *scenarios, ring_frames=16, ends_within_s=400.0):
            assert len(told["recovered_s"]) == of_a_session
            assert not any(told["late"].values())
            recovered_s += told["recovered_s"]
    sys.stdout.write("{} kills of {}: three further steps after {:.0f} ms (median), {:.0f} ms (p95), {:.0f} ms "
                     "at most\n".format(len(recovered_s), kinds, *1000 * np.percentile(recovered_s, [50, 95, 100])))
