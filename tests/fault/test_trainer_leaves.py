"""``session.close()``, ``iterator.initializer`` and Ctrl-C while the ring is full and while a plan is awaited.

Each with batches that ``prefetch`` reads ahead, and without (``bare``).
"""
import pytest

from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(240)

SOURCES = ("prefetch", "bare")


def test_with_a_full_ring_sessions_close_iterators_begin_again_and_ctrl_c_interrupts():
    said = running.run("leaving", *_scenarios("close_full", "again_full", "interrupt_full"), ring_frames=2)
    assert [answer["interrupts"] for answer in said if "interrupts" in answer] == [12, 12]


@pytest.mark.parametrize("frames", [2, pytest.param(8, marks=pytest.mark.long)])
def test_while_a_plan_is_awaited_sessions_close_iterators_begin_again_and_ctrl_c_interrupts(frames):
    said = running.run("leaving", *_scenarios("close_waiting", "again_waiting", "interrupt_waiting"),
                       ring_frames=frames)
    assert [answer["raised"] for answer in said if "raised" in answer] == [["KeyboardInterrupt"] * 2] * 2
    assert [answer["errors"] for answer in said if "errors" in answer] == [["CancelledError"] * 3] * 2


def _scenarios(*names):
    return [name + ":" + source for name in names for source in SOURCES]
