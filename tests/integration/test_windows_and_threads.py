"""Programs that do more with batches than train each once: rows and counts equal those of the trained batches."""
import pytest

from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(180)


@pytest.mark.parametrize("frames, rounds", [
    (2, 20), (4, 50), pytest.param(64, 50, marks=pytest.mark.long), pytest.param(2, 50, marks=pytest.mark.long)])
def test_an_evaluation_left_half_read_every_second_step_changes_nothing(frames, rounds):
    (loop,) = running.run("windows", "seeds_loop:{}".format(rounds), ring_frames=frames)
    assert loop["evaluated"] == 3 * rounds
    assert loop["late"] == 0


@pytest.mark.parametrize("frames", [
    2, pytest.param(4, marks=pytest.mark.long), pytest.param(64, marks=pytest.mark.long)])
def test_what_is_read_ahead_skipped_filtered_or_peeked_at_leaves_no_trace(frames):
    running.run("windows", "again", "skip_filter_peek", ring_frames=frames)
