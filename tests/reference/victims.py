"""What the kernels of ``ascpipe/kernels/victims.py`` must compute: a dictionary of scores, sorted when asked."""


def clear_order(scores):
    scores.clear()


def expect_slots(n, scores):
    """A dictionary has room."""


def put_slot(slot, score, yes, scores):
    if yes:
        scores[slot] = score


def drop_slot(slot, scores):
    scores.pop(slot, None)


def take_least(n, scores):
    """(score, slot) of each that is taken."""
    taken = sorted((score, slot) for slot, score in scores.items())[:n]
    for _, slot in taken:
        drop_slot(slot, scores)
    return taken
