"""Workers are killed while training and evaluation go on; every lookup is as if nothing had happened."""
import pytest

from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(240)


def test_workers_are_killed_while_training_goes_on_also_between_a_claim_and_its_retirement():
    killed, between = running.run("deaths", "killed_workers:table+key,4", "killed_between_plan_and_retire:3",
                                  ring_frames=16)
    assert killed["restarts"] == {"table": 2, "key": 2}
    assert not any(killed["late"].values())
    assert between["in_between"] > 0


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
