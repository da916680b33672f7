"""Workers are killed while training and evaluation go on; every lookup is as if nothing had happened."""
import pytest

from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(180)


def test_a_table_worker_and_a_key_worker_are_killed_while_training_goes_on():
    (killed,) = running.run("deaths", "killed_workers:table+key,6", ring_frames=16)
    assert killed["restarts"] == {"table": 3, "key": 3}
    assert not any(killed["late"].values())


def test_a_table_worker_dies_after_a_claim_and_before_it_has_retired_it():
    (killed,) = running.run("deaths", "killed_between_plan_and_retire", ring_frames=16)
    assert killed["in_between"] > 0


@pytest.mark.parametrize("kind", ["table", pytest.param("key", marks=pytest.mark.long)])
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
