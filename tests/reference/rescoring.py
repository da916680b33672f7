"""Plain-Python twins of ``ascpipe/kernels/rescoring.py``: the queue is a dictionary of scores."""
from tests.reference.victims import take_least


def score_of(frequency, uses, newest, first_use):
    """Idle slots by frequency, 1 - 2**31 to 0; then those that are used later before those that are used earlier."""
    frames = [number for number in range(newest - 63, newest + 1) if uses >> number % 64 & 1]
    return frequency - 2**31 + 1 if not frames else 2**31 - 1 - (frames[0] - first_use)


def true_score(slot, table, newest, first_use):
    return true_scores(table, newest, first_use)[slot]


def keep_least(taken, true_scores, scores):
    """(what is kept of the (score, slot) that were taken, the scores in the order afterwards)."""
    right = [true_scores[slot] == score for score, slot in taken]
    back = [(true_scores[slot], slot) for (_, slot), kept in zip(taken, right) if not kept]
    kept = [one for one, is_right in zip(taken, right) if is_right and all(one < other for other in back)]
    put = {slot: true_scores[slot] for _, slot in taken if slot not in {slot for _, slot in kept}}
    return kept, {**scores, **put}


def take_victims(n, true_score_of, scores):
    """(up to n slots, the scores in the order afterwards); ``true_score_of`` is a function of a slot."""
    chosen = []
    while len(chosen) < n and scores:
        taken = take_least(n - len(chosen), scores)
        kept, scores = keep_least(taken, {slot: true_score_of(slot) for _, slot in taken}, scores)
        chosen += [slot for _, slot in kept]
    return chosen, scores


def uses(table, entry, but=None):
    """Frames of the window that are still to be planned and hold the entry, except one; the oldest first."""
    return [number for number in sorted(table.unplanned - {but}) if entry in table.window.get(number, ())]


def true_scores(table, newest, first_use):
    """Score of each slot in use, as the table is now."""
    return {row[0]: score_of(row[3], sum(1 << number % 64 for number in uses(table, entry)), newest, first_use)
            for entry, row in table.view.items() if row[0] >= 0}
