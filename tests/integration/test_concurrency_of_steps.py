"""Many tables on one thread, tables that are fetched seldom or never, two training threads, steps that fail."""
import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def test_one_thread_for_26_tables_two_threads_that_train_and_steps_that_fail_equal_the_oracle():
    running.run("windows", "many_tables:26,10", "two_threads", "failing_step", ring_frames=8)


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 64])
def test_a_table_is_fetched_every_hundredth_step_and_two_threads_train_two_thousand_batches(frames):
    running.run("windows", "many_tables:26,100", "two_threads:1000", "failing_step", ring_frames=frames)
