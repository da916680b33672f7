"""Plain-Python twins of ``ascpipe/kernels/swaps.py``."""
from tests.reference.rescoring import score_of, true_scores, uses


def rank_slots(held, future, masks, rows, newest, first_use, scores):
    """Return the scores of the order afterwards; a row is (slot, home, count, frequency)."""
    ranked = {rows[entry][0]: score_of(rows[entry][3], masks[entry] & future, newest, first_use)
              for entry in held if rows[entry][0] >= 0}
    return {**scores, **ranked}


def rank_all(table, newest, first_use):
    """Return the scores of the order afterwards."""
    return true_scores(table, newest, first_use)


def drop_slots(slots, scores):
    """Return the scores of the order afterwards."""
    return {slot: score for slot, score in scores.items() if slot not in slots}


def choose_victims(table, number, record, n):
    """Choose n slots by a search over all rows of a ``batch_steps.Table``."""
    slots = {row[0]: entry for entry, row in table.view.items() if row[0] >= 0 and row[0] not in record.slots}
    next_use = {slot: (uses(table, entry, number) or [None])[0] for slot, entry in slots.items()}
    idle = sorted((table.view[slots[slot]][3], slot) for slot, use in next_use.items() if use is None)
    needed = sorted((-use, slot) for slot, use in next_use.items() if use is not None)
    assert n <= len(idle) + len(needed)
    table.victims_filled |= n > 0
    return [slot for _, slot in idle + needed][:n]
