"""Plain-Python twins of ``ascpipe/kernels/next_action.py``."""
from ascpipe.layout.words import ANSWERED, ASKED, CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED

NOTHING, RETIRE, REVOKE, SKIP, COUNT_ONLY, TOUCH, APPLY_CUT, PLAN, ANSWER, RELEASE = range(10)


def next_train_action(words, closed, trained, frame_count, look_ahead, plan_ahead, wanted, cut_asked, touch_blocked):
    """Return (action, index of its frame) by the first rule that applies."""
    frames = list(zip(words, closed, trained))[:frame_count]
    dead = [bool(c) and not t for _, c, t in frames]
    plans = [i for i, (w, _, _) in enumerate(frames) if w == PLANNED]
    head = next((i for i, (w, _, _) in enumerate(frames) if w != RETIRED), None)

    if head is not None:
        word, is_closed, is_trained = frames[head]
        if word == DONE:
            return RETIRE, head
        if is_closed and word == PLANNED:
            return REVOKE, plans[-1]
        if dead[head] and DEDUPED <= word < CLAIMED:
            return SKIP, head
        if is_closed and is_trained and word == TOUCHED:
            return COUNT_ONLY, head

    to_touch = next((i for i, (w, _, _) in enumerate(frames) if w <= DEDUPED and not dead[i]), None)
    if to_touch is not None and frames[to_touch][0] == DEDUPED and (to_touch == head or not touch_blocked):
        return TOUCH, to_touch

    if cut_asked:
        if plans:
            return REVOKE, plans[-1]
        waits = any(w in (CLAIMED, DONE) or (w < CLAIMED and c and t) for w, c, t in frames)
        return (NOTHING if waits else APPLY_CUT), -1

    to_plan = next((i for i, (w, c, _) in enumerate(frames) if w == TOUCHED and not c), None)
    if to_plan is None or len(plans) >= plan_ahead:
        return NOTHING, -1
    for i in range(to_plan):
        word, is_closed, _ = frames[i]
        stands = word in (CLAIMED, DONE, RETIRED) or (word == PLANNED and not is_closed)
        passes = dead[i] and word != PLANNED
        if not stands and not passes:
            return NOTHING, -1
    all_touched = not any(w in (SUBMITTED, DEDUPED) and not d for (w, _, _), d in zip(frames, dead))
    last_touched = max(i for i, (w, _, _) in enumerate(frames) if TOUCHED <= w < RETIRED)
    if all_touched or touch_blocked or last_touched >= to_plan + look_ahead or wanted >= to_plan:
        return PLAN, to_plan
    return NOTHING, -1


def next_eval_action(words, closed, frame_count, readable):
    for i in range(frame_count):
        if closed[i] and words[i] in (DEDUPED, ASKED, ANSWERED, DONE):
            return RELEASE, i
        if words[i] == ASKED and readable:
            return ANSWER, i
    return NOTHING, -1


def next_train_actions(tables, look_ahead, plan_ahead):
    """Return ((action, index of its frame) of each table, least number of plans of a table, at most ``plan_ahead``).

    A table is (words, closed, trained, wanted, cut asked, blocked, is loading).
    """
    chosen = [(NOTHING, -1) if is_loading else next_train_action(
        words, closed, trained, len(words), look_ahead, plan_ahead, wanted, cut_asked, touch_blocked)
        for words, closed, trained, wanted, cut_asked, touch_blocked, is_loading in tables]
    plans = [0 if is_loading else list(words).count(PLANNED) for words, *_, is_loading in tables]
    return chosen, min([plan_ahead, *plans])


def is_readable(words, closed, trained, frame_count):
    return not any(w in (CLAIMED, DONE) or (c and t and w < RETIRED)
                   for w, c, t in list(zip(words, closed, trained))[:frame_count])
