"""Expected results of the kernels of ``ascpipe/kernels/victims.py``: a dictionary of scores, sorted on request."""


def clear_order(scores):
    scores.clear()


def expect_slots(n, scores):
    """Do nothing: a dictionary always has room."""


def put_slot(slot, score, yes, scores):
    if yes:
        scores[slot] = score


def drop_slot(slot, scores):
    scores.pop(slot, None)


def take_least(n, scores):
    """Remove the n least slots and return their (score, slot)."""
    taken = sorted((score, slot) for slot, score in scores.items())[:n]
    for _, slot in taken:
        drop_slot(slot, scores)
    return taken
