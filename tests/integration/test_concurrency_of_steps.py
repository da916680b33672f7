"""Many tables on one thread, tables that are fetched seldom or never, two training threads, steps that fail."""
import pytest

from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(180)


@pytest.mark.parametrize("every", [10, pytest.param(100, marks=pytest.mark.long)])
def test_26_tables_train_on_one_thread_with_one_fetched_seldom_and_one_never(every):
    running.run("windows", "many_tables:26,{}".format(every), ring_frames=8)


def test_two_training_threads_train_each_batch_once_and_a_failed_step_is_counted_and_not_applied():
    running.run("windows", "two_threads", "failing_step", ring_frames=8)


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 64])
def test_two_threads_train_two_thousand_batches(frames):
    running.run("windows", "two_threads:1000", ring_frames=frames)
