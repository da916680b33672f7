import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import next_action as kernel
from ascpipe.kernels.records import TURN
from ascpipe.layout.words import ASKED, CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED
from tests.reference import next_action as reference
from tests.support.covering import example_count

FRAME = st.tuples(st.integers(SUBMITTED, RETIRED), st.booleans(), st.booleans())
FRAMES = st.lists(FRAME, max_size=10)
EVAL_FRAMES = st.lists(st.tuples(st.sampled_from([0, 1, 5, 6, 8, 9]), st.booleans(), st.booleans()), max_size=8)


def arrays(frames):
    columns = [list(column) for column in zip(*frames)] if frames else [[], [], []]
    return [np.array(column, np.int64) for column in columns]


def turns_of(*tables):
    """TURN[tables], of (frames, wanted, cut asked, blocked, is loading) each; the head is frame 100."""
    turns = np.zeros(len(tables), TURN)
    for turn, (frames, *seen) in zip(turns, tables):
        turn["head"], turn["count"] = 100, len(frames)
        turn["wanted"], turn["cut_asked"], turn["touch_blocked"], turn["is_loading"] = seen
        for field, column in zip(("words", "closed", "trained"), arrays(frames)):
            turn[field] = -9
            turn[field][:len(frames)] = column
    return turns


def turn_of(frames, wanted=-1, cut_asked=False, touch_blocked=False):
    return turns_of((frames, wanted, cut_asked, touch_blocked, False))[0]


def choose(frames, look_ahead=32, plan_ahead=2, **seen):
    return kernel.next_train_action(turn_of(frames, **seen), look_ahead, plan_ahead)


@settings(deadline=None, max_examples=example_count(200, 2000))
@given(FRAMES, st.integers(0, 3), st.integers(1, 3), st.integers(-1, 9), st.booleans(), st.booleans())
def test_the_training_action_is_the_references(frames, look_ahead, plan_ahead, wanted, cut_asked, touch_blocked):
    expected = reference.next_train_action(*arrays(frames), len(frames), look_ahead, plan_ahead, wanted, cut_asked,
                                           touch_blocked)
    assert choose(frames, look_ahead, plan_ahead, wanted=wanted, cut_asked=cut_asked,
                  touch_blocked=touch_blocked) == expected


@settings(deadline=None)
@given(st.lists(st.tuples(FRAMES, st.integers(-1, 9), st.booleans(), st.booleans(), st.booleans()), max_size=4),
       st.integers(0, 3), st.integers(1, 3))
def test_the_training_actions_of_all_tables_are_those_of_each(tables, look_ahead, plan_ahead):
    turns = turns_of(*tables)
    ready, plans = kernel.next_train_actions(turns, look_ahead, plan_ahead)
    expected, least = reference.next_train_actions([(*arrays(frames), *rest) for frames, *rest in tables], look_ahead,
                                                   plan_ahead)
    assert list(zip(turns["action"].tolist(), (turns["number"] - 100).tolist())) == expected
    assert (ready, plans) == (sum(action != kernel.NOTHING for action, _ in expected), least)


@settings(deadline=None)
@given(EVAL_FRAMES, st.booleans())
def test_the_evaluation_action_is_the_references(frames, readable):
    words, closed, _ = arrays(frames)
    assert kernel.next_eval_action(turn_of(frames), readable) == reference.next_eval_action(
        words, closed, len(frames), readable)


@settings(deadline=None)
@given(FRAMES)
def test_readers_wait_exactly_as_the_reference_says(frames):
    assert kernel.is_readable(turn_of(frames)) == reference.is_readable(*arrays(frames), len(frames))


OPEN, CLOSED = (False, False), (True, False)
TRAINED_OPEN, TRAINED_CLOSED = (False, True), (True, True)


@pytest.mark.parametrize(("frames", "action"), [
    ([(DONE, *TRAINED_OPEN)], (kernel.RETIRE, 0)),
    ([(CLAIMED, *TRAINED_OPEN), (DONE, *TRAINED_OPEN)], (kernel.NOTHING, -1)),
    ([(PLANNED, *CLOSED), (PLANNED, *OPEN)], (kernel.REVOKE, 1)),
    ([(SUBMITTED, *CLOSED)], (kernel.NOTHING, -1)),
    ([(DEDUPED, *CLOSED)], (kernel.SKIP, 0)),
    ([(TOUCHED, *TRAINED_CLOSED)], (kernel.COUNT_ONLY, 0)),
    ([(DEDUPED, *TRAINED_CLOSED)], (kernel.TOUCH, 0)),
    ([(TOUCHED, *TRAINED_OPEN)], (kernel.PLAN, 0)),
    ([(CLAIMED, *TRAINED_OPEN), (TOUCHED, *CLOSED), (TOUCHED, *OPEN)], (kernel.PLAN, 2)),
    ([(CLAIMED, *TRAINED_OPEN), (TOUCHED, *TRAINED_CLOSED), (TOUCHED, *OPEN)], (kernel.NOTHING, -1)),
])
def test_each_rule_in_its_simplest_case(frames, action):
    assert choose(frames) == action


def test_a_wanted_frame_is_planned_although_input_is_untouched():
    frames = [(TOUCHED, *OPEN), (SUBMITTED, *OPEN)]
    assert choose(frames) == (kernel.NOTHING, -1)
    assert choose(frames, wanted=0) == (kernel.PLAN, 0)


def test_a_closed_question_is_released_without_an_answer():
    assert kernel.next_eval_action(turn_of([(ASKED, True, False)]), True) == (kernel.RELEASE, 0)
