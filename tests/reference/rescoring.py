"""Plain-Python twins of ``ascpipe/kernels/rescoring.py``: the queue is a dictionary of scores."""
from tests.reference.victims import take_least


def score_of(frequency, uses, newest, first_use):
    """Return the score of a slot.

    Idle slots have scores by frequency, from 1 - 2**31 to 0.  Other slots follow; a later use gives a lower score.
    """
    frames = [number for number in range(newest - 63, newest + 1) if uses >> number % 64 & 1]
    return frequency - 2**31 + 1 if not frames else 2**31 - 1 - (frames[0] - first_use)


def true_score(slot, table, newest, first_use):
    return true_scores(table, newest, first_use)[slot]


def keep_least(taken, true_scores, scores):
    """Return (the kept ones of the taken (score, slot), the scores of the order afterwards)."""
    right = [true_scores[slot] == score for score, slot in taken]
    back = [(true_scores[slot], slot) for (_, slot), kept in zip(taken, right) if not kept]
    kept = [one for one, is_right in zip(taken, right) if is_right and all(one < other for other in back)]
    put = {slot: true_scores[slot] for _, slot in taken if slot not in {slot for _, slot in kept}}
    return kept, {**scores, **put}


def take_victims(n, true_score_of, scores):
    """Return (up to n slots, the scores of the order afterwards); ``true_score_of`` is a function of a slot."""
    chosen = []
    while len(chosen) < n and scores:
        taken = take_least(n - len(chosen), scores)
        kept, scores = keep_least(taken, {slot: true_score_of(slot) for _, slot in taken}, scores)
        chosen += [slot for _, slot in kept]
    return chosen, scores


def uses(table, entry, but=None):
    """Return the frames of the window except ``but`` that hold the entry and are not planned yet, oldest first."""
    return [number for number in sorted(table.unplanned - {but}) if entry in table.window.get(number, ())]


def true_scores(table, newest, first_use):
    """Return the current score of each used slot."""
    return {row[0]: score_of(row[3], sum(1 << number % 64 for number in uses(table, entry)), newest, first_use)
            for entry, row in table.view.items() if row[0] >= 0}
