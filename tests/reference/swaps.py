"""Plain-Python twins of ``ascpipe/kernels/swaps.py``."""


def score_of(frequency, uses, newest, first_use):
    """Idle slots by frequency, 1 - 2**31 to 0; then those that are used later before those that are used earlier."""
    frames = [number for number in range(newest - 63, newest + 1) if uses >> number % 64 & 1]
    return frequency - 2**31 + 1 if not frames else 2**31 - 1 - (frames[0] - first_use)


def rank_slots(held, future, masks, rows, newest, first_use, scores):
    """The scores of the slots in the order afterwards; a row is (slot, home, count, frequency)."""
    ranked = {rows[entry][0]: score_of(rows[entry][3], masks[entry] & future, newest, first_use)
              for entry in held if rows[entry][0] >= 0}
    return {**scores, **ranked}


def rank_all(table, newest, first_use):
    """The scores of the slots in the order afterwards."""
    return true_scores(table, newest, first_use)


def true_score(slot, table, newest, first_use):
    return true_scores(table, newest, first_use)[slot]


def keep_least(taken, true_scores, scores):
    """(what is kept of the (score, slot) that were taken, the scores in the order afterwards)."""
    right = [true_scores[slot] == score for score, slot in taken]
    back = [(true_scores[slot], slot) for (_, slot), kept in zip(taken, right) if not kept]
    kept = [one for one, is_right in zip(taken, right) if is_right and all(one < other for other in back)]
    put = {slot: true_scores[slot] for _, slot in taken if slot not in {slot for _, slot in kept}}
    return kept, {**scores, **put}


def drop_slots(slots, scores):
    """The scores of the slots in the order afterwards."""
    return {slot: score for slot, score in scores.items() if slot not in slots}


def uses(table, entry, but=None):
    """Frames of the window that are still to be planned and hold the entry, except one; the oldest first."""
    return [number for number in sorted(table.unplanned - {but}) if entry in table.window.get(number, ())]


def true_scores(table, newest, first_use):
    """Score of each slot in use, as the table is now."""
    return {row[0]: score_of(row[3], sum(1 << number % 64 for number in uses(table, entry)), newest, first_use)
            for entry, row in table.view.items() if row[0] >= 0}


def choose_victims(table, number, record, n):
    """n slots; the rows of a ``batch_steps.Table`` are searched anew."""
    slots = {row[0]: entry for entry, row in table.view.items() if row[0] >= 0 and row[0] not in record.slots}
    next_use = {slot: (uses(table, entry, number) or [None])[0] for slot, entry in slots.items()}
    idle = sorted((table.view[slots[slot]][3], slot) for slot, use in next_use.items() if use is None)
    needed = sorted((-use, slot) for slot, use in next_use.items() if use is not None)
    assert n <= len(idle) + len(needed)
    table.victims_filled |= n > 0
    return [slot for _, slot in idle + needed][:n]
