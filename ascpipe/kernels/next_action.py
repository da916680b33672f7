"""What a table worker does next for one table: the decision, without any I/O.

The rules are those of the protocol model in ``tests/model``; ``docs/protocol.md`` tells them in words.
The readable version is ``tests/reference/next_action.py``.
"""
from numba import njit

from ascpipe.layout.words import ANSWERED, ASKED, CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED

NOTHING = 0
RETIRE = 1  #: assign the record of a DONE frame to the truth
REVOKE = 2  #: take the newest plan back
SKIP = 3  #: acknowledge a frame that nobody will train
COUNT_ONLY = 4  #: finish a trained frame that this table did not claim
TOUCH = 5  #: find or append the entries of a frame
APPLY_CUT = 6  #: commit and apply the change that was asked for
PLAN = 7
ANSWER = 8  #: resolve the keys of an evaluation
RELEASE = 9  #: acknowledge an evaluation frame that is closed

# columns of ``flags``
CUT_ASKED, TOUCH_BLOCKED, IS_LOADING = range(3)
FLAGS = 3


@njit("UniTuple(int64, 2)(int64[::1], int64[::1], int64[::1], int64, int64, int64, int64, boolean, boolean)",
      cache=True, nogil=True)
def next_train_action(words, closed, trained, frame_count, look_ahead, plan_ahead, wanted, cut_asked, touch_blocked):
    """Choose the next action of a table in its training stream.

    Args:
        words: int64[>= frame_count]; word of each frame for this table, oldest frame first.
        closed: int64[>= frame_count]; 1 = nobody can train the frame any more.  Read before the other two.
        trained: int64[>= frame_count]; 1 = some table claimed the frame.
        frame_count: frames in the ring, 0 to 64.
        look_ahead: L; a frame is planned when the L-th frame after it is touched.
        plan_ahead: P; plans that may stand unclaimed.
        wanted: index of the newest frame that a claim waits for, or -1.
        cut_asked: a change waits to be applied.
        touch_blocked: the last touch found too few free entries, and none was freed since.

    Returns:
        (action, index of its frame or -1).
    """
    head = -1
    newest_plan = -1
    plans = 0
    untouched = -1
    last_touched = -1
    pending = 0  # claimed, done, or trained and closed but not finished: a cut waits for these
    unfinished_input = False
    input_gap = False  # frames are touched in order, or a later one may take the entries that an earlier one needs
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
    # a touch that does not fit waits for a retirement, unless nothing can be retired before it
    if untouched >= 0 and (not touch_blocked or untouched == head):
        return TOUCH, untouched
    if cut_asked:
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
            seen_enough = not unfinished_input or touch_blocked or last_touched >= i + look_ahead or wanted >= i
            if seen_enough:
                return PLAN, i
            return NOTHING, -1
        # a plan stands upon every frame before it that is finished, claimed or planned; it may pass a
        # dead frame that is not planned, nothing else
        standing = word == CLAIMED or word == DONE or word == RETIRED or (word == PLANNED and closed[i] == 0)
        dead = closed[i] != 0 and trained[i] == 0 and word != PLANNED
        if not standing and not dead:
            return NOTHING, -1
    return NOTHING, -1


@njit("int64(int64[:, :, ::1], int64[::1], int64, int64, int64[::1], boolean[:, ::1], int64[::1], int64[::1])",
      cache=True, nogil=True)
def next_train_actions(states, counts, look_ahead, plan_ahead, wanted, flags, out_actions, out_places):
    """Choose the next action of each table in one training stream.

    Args:
        states: int64[tables, 3, 64]; of each table words, closed, trained, as in ``next_train_action``.
        counts: int64[tables]; frames in the ring, as each table saw it.
        look_ahead, plan_ahead: L and P.
        wanted: int64[tables].
        flags: bool[tables, FLAGS]; CUT_ASKED, TOUCH_BLOCKED, and IS_LOADING: nothing is to be done.
        out_actions: int64[tables]; receive the actions.
        out_places: int64[tables]; receive the indexes of their frames, or -1.

    Returns:
        How many tables have something to do.
    """
    ready = 0
    for table in range(counts.shape[0]):
        action, place = NOTHING, -1
        if not flags[table, IS_LOADING]:
            action, place = next_train_action(
                states[table, 0], states[table, 1], states[table, 2], counts[table], look_ahead, plan_ahead,
                wanted[table], flags[table, CUT_ASKED], flags[table, TOUCH_BLOCKED])
        out_actions[table], out_places[table] = action, place
        ready += action != NOTHING
    return ready


@njit("UniTuple(int64, 2)(int64[::1], int64[::1], int64, boolean)", cache=True, nogil=True)
def next_eval_action(words, closed, frame_count, readable):
    """Choose the next action of a table in its evaluation stream.

    Args:
        words: int64[>= frame_count]; word of each frame for this table, oldest frame first.
        closed: int64[>= frame_count]; 1 = the frame's step is over.  Read before the words.
        frame_count: frames in the ring, 0 to 64.
        readable: the truth of the table is the state after the last trained step.

    Returns:
        (action, index of its frame or -1).
    """
    for i in range(frame_count):
        word = words[i]
        if closed[i] != 0 and (word == DEDUPED or word == ASKED or word == ANSWERED or word == DONE):
            return RELEASE, i
        if word == ASKED and readable:
            return ANSWER, i
    return NOTHING, -1


@njit("boolean(int64[::1], int64[::1], int64[::1], int64)", cache=True, nogil=True)
def is_readable(words, closed, trained, frame_count):
    """True if every claimed frame, and every closed frame that was trained, is retired.

    Args:
        words, closed, trained: as in ``next_train_action``.
        frame_count: frames in the ring.

    Returns:
        Whether a reader may take the truth for the state after the last trained step.
    """
    for i in range(frame_count):
        if words[i] == CLAIMED or words[i] == DONE:
            return False
        if closed[i] != 0 and trained[i] != 0 and words[i] < RETIRED:
            return False
    return True
