"""Kernels that choose the next action of a table worker for one table. They perform no I/O.

The rules are the same as in the protocol model in ``tests/model``; ``docs/internals/protocol.md`` explains them. The
plain-Python version is ``tests/reference/next_action.py``.
"""
from ascpipe.kernels.door import entry, inner
from ascpipe.layout.words import ANSWERED, ASKED, CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED

NOTHING = 0
RETIRE = 1  #: assign the record of a DONE frame to the truth
REVOKE = 2  #: revoke the newest plan
SKIP = 3  #: acknowledge a frame that will not be trained
COUNT_ONLY = 4  #: finish a trained frame that this table did not claim
TOUCH = 5  #: find or create the entries of a frame
APPLY_CUT = 6  #: commit and apply the requested change
PLAN = 7
ANSWER = 8  #: resolve the keys of an evaluation
RELEASE = 9  #: acknowledge a closed evaluation frame


@inner("UniTuple(int64, 2)(Turn, int64, int64)")
def next_train_action(turn, look_ahead, plan_ahead):
    """Return the next action of a table worker for one table, based on the frames of the training stream.

    Args:
        turn: state of the table: its frames, the frame for which a claim waits, and whether a change is
            requested or a touch is blocked. ``plans`` receives the number of unclaimed plans.
        look_ahead: L. A frame is planned when the L-th frame after it is touched.
        plan_ahead: P, the maximum number of unclaimed plans.

    Returns:
        (action, index of the action's frame or -1).
    """
    words = turn["words"]
    closed = turn["closed"]
    trained = turn["trained"]
    frame_count = turn["count"]
    touch_blocked = turn["touch_blocked"] != 0
    head = -1
    newest_plan = -1
    plans = 0
    untouched = -1
    last_touched = -1
    pending = 0  # frames for which a cut waits: claimed, done, or trained and closed but not finished
    unfinished_input = False
    input_gap = False  # frames are touched in order; otherwise, a later frame could take entries of an earlier one
    for i in range(frame_count):
        word = words[i]
        dead = closed[i] != 0 and trained[i] == 0
        if word != RETIRED and head < 0:
            head = i
        if word == PLANNED:
            plans += 1
            newest_plan = i
        if TOUCHED <= word < RETIRED:
            last_touched = i
        if word == DEDUPED and not dead and untouched < 0 and not input_gap:
            untouched = i
        if word == SUBMITTED and not dead:
            input_gap = True
        if word <= DEDUPED and not dead:
            unfinished_input = True
        if word == CLAIMED or word == DONE or (word < CLAIMED and closed[i] != 0 and trained[i] != 0):
            pending += 1
    turn["plans"] = plans

    if head >= 0:
        if words[head] == DONE:
            return RETIRE, head
        if closed[head] != 0 and words[head] < CLAIMED:
            if words[head] == PLANNED:
                return REVOKE, newest_plan
            if trained[head] == 0 and words[head] != SUBMITTED:
                return SKIP, head
            if trained[head] != 0 and words[head] == TOUCHED:
                return COUNT_ONLY, head
    # a touch that does not fit waits for a retirement, unless no frame can be retired before it
    if untouched >= 0 and (not touch_blocked or untouched == head):
        return TOUCH, untouched
    if turn["cut_asked"]:
        if newest_plan >= 0:
            return REVOKE, newest_plan
        if pending == 0:
            return APPLY_CUT, -1
        return NOTHING, -1
    if plans >= plan_ahead:
        return NOTHING, -1
    for i in range(frame_count):
        word = words[i]
        if word == TOUCHED and closed[i] == 0:
            seen_enough = not unfinished_input or touch_blocked or last_touched >= i + look_ahead or turn["wanted"] >= i
            if seen_enough:
                return PLAN, i
            return NOTHING, -1
        # A plan is based on all earlier frames. They must be finished, claimed or planned, or be dead and not
        # planned.
        standing = word == CLAIMED or word == DONE or word == RETIRED or (word == PLANNED and closed[i] == 0)
        dead = closed[i] != 0 and trained[i] == 0 and word != PLANNED
        if not standing and not dead:
            return NOTHING, -1
    return NOTHING, -1


@inner("UniTuple(int64, 2)(Turn[::1], int64, int64)")
def next_train_actions(turns, look_ahead, plan_ahead):
    """Choose the next action of each table in a training stream. There is no action for a table that is granted to the
    trainer.

    Args:
        turns: TURN[tables]: states of the tables. They receive action and frame.
        look_ahead, plan_ahead: see ``next_train_action``.

    Returns:
        (number of tables with an action, lowest number of unclaimed plans of any table).
    """
    ready = 0
    plans = plan_ahead
    for i in range(turns.shape[0]):
        turn = turns[i]
        action = NOTHING
        index = -1
        turn["plans"] = 0
        if not turn["is_loading"]:
            action, index = next_train_action(turn, look_ahead, plan_ahead)
        plans = min(plans, turn["plans"])
        turn["action"] = action
        turn["number"] = turn["head"] + index
        ready += action != NOTHING
    return ready, plans


@entry("UniTuple(int64, 2)(Turn, boolean)")
def next_eval_action(turn, readable):
    """Return the next action of a table worker for one table, based on the frames of an evaluation stream.

    Args:
        turn: state of the frames.
        readable: whether shared memory contains the state of the table after the last trained step.

    Returns:
        (action, index of the action's frame or -1).
    """
    words = turn["words"]
    closed = turn["closed"]
    for i in range(turn["count"]):
        word = words[i]
        if closed[i] != 0 and (word == DEDUPED or word == ASKED or word == ANSWERED or word == DONE):
            return RELEASE, i
        if word == ASKED and readable:
            return ANSWER, i
    return NOTHING, -1


@entry("boolean(Turn)")
def is_readable(turn):
    """Return True if every frame that was claimed, or trained and closed, is retired.

    In this case, shared memory contains the state after the last trained step, and an evaluation may read this state.

    Args:
        turn: state of the frames.
    """
    words = turn["words"]
    closed = turn["closed"]
    trained = turn["trained"]
    for i in range(turn["count"]):
        if words[i] == CLAIMED or words[i] == DONE:
            return False
        if closed[i] != 0 and trained[i] != 0 and words[i] < RETIRED:
            return False
    return True
