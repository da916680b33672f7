"""Programs that do more with batches than train each once: rows and counts equal those of the trained batches."""
import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def test_batches_that_are_evaluated_read_ahead_skipped_filtered_or_peeked_at_leave_no_trace():
    loop = running.run("windows", "seeds_loop:25", "again", "skip_filter_peek", ring_frames=2)[0]
    assert loop["evaluated"] == 75
    assert loop["late"] == 0


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 4, 64])
def test_batches_that_are_evaluated_read_ahead_skipped_filtered_or_peeked_at_leave_no_trace_for_long(frames):
    loop = running.run("windows", "seeds_loop:50", "again:20", "skip_filter_peek", ring_frames=frames)[0]
    assert loop["evaluated"] == 150
    assert loop["late"] == 0
