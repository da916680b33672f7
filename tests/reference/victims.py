"""What the kernels of ``ascpipe/kernels/victims.py`` must compute: a dictionary of scores, sorted when asked."""


def clear_order(scores):
    scores.clear()


def put_slot(slot, score, scores):
    scores[slot] = score


def drop_slot(slot, scores):
    return scores.pop(slot, None) is not None


def put_slots(slots, slot_scores, scores):
    scores.update(zip(slots, slot_scores))


def take_least(n, scores):
    taken = sorted(scores, key=lambda slot: (scores[slot], slot))[:n]
    for slot in taken:
        drop_slot(slot, scores)
    return taken
