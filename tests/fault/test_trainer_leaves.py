"""``session.close()``, ``iterator.initializer`` and Ctrl-C while the ring is full and while a plan is awaited.

Each with batches that ``prefetch`` reads ahead, and without (``bare``).
"""
import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def leave(frames, *scenarios):
    for answer in running.run("leaving", *scenarios, ring_frames=frames):
        assert answer.get("interrupts", 12) == 12
        assert answer.get("raised", ["KeyboardInterrupt"] * 2) == ["KeyboardInterrupt"] * 2
        assert answer.get("errors", ["CancelledError"] * 3) == ["CancelledError"] * 3


def test_sessions_close_iterators_begin_again_and_ctrl_c_interrupts_whatever_is_waited_for():
    leave(2, "close_full:prefetch", "again_full:prefetch", "interrupt_full:prefetch",
          "close_waiting:bare", "again_waiting:prefetch", "interrupt_waiting:bare")


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 8, 64])
@pytest.mark.parametrize("source", ["prefetch", "bare"])
def test_sessions_close_iterators_begin_again_and_ctrl_c_interrupts_while_a_plan_is_awaited(source, frames):
    leave(frames, *(name + ":" + source for name in ("close_waiting", "again_waiting", "interrupt_waiting")))


@pytest.mark.long
@pytest.mark.parametrize("source", ["prefetch", "bare"])
def test_sessions_close_iterators_begin_again_and_ctrl_c_interrupts_with_a_full_ring(source):
    leave(2, *(name + ":" + source for name in ("close_full", "again_full", "interrupt_full")))
