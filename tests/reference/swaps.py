"""Plain-Python twins of ``ascpipe/kernels/swaps.py``."""


def take_farthest(n, future, first, masks, own, slot_entries):
    """n slots, the farthest next use first, then the lowest slot."""
    order = [(first + i) % 64 for i in range(64)]
    next_use = {slot: next((i for i, place in enumerate(order) if masks[entry] & future & 1 << place),
                           None)
                for slot, entry in enumerate(slot_entries) if entry >= 0 and slot not in own}
    used = [slot for slot, use in next_use.items() if use is not None]
    return sorted(used, key=lambda slot: (-next_use[slot], slot))[:n]


def put_idle(held, future, masks, rows, scores):
    """The scores of slots in the order afterwards; a row is (slot, home, count, frequency)."""
    idle = [rows[entry] for entry in held if not masks[entry] & future and rows[entry][0] >= 0]
    return {**scores, **{slot: frequency for slot, _, _, frequency in idle}}


def drop_held(held, rows, scores):
    """The scores of slots in the order afterwards."""
    dropped = {rows[entry][0] for entry in held}
    return {slot: score for slot, score in scores.items() if slot not in dropped}


def uses(table, entry, but=None):
    """Frames of the window that are still to be planned and hold the entry, except one; the oldest first."""
    return [number for number in sorted(table.unplanned - {but}) if entry in table.window.get(number, ())]


def idle_scores(table, held):
    """Slots of those entries that no frame to be planned needs, with their scores."""
    rows = [table.view[entry] for entry in held if not uses(table, entry)]
    return {slot: frequency for slot, _, _, frequency in rows if slot >= 0}


def choose_victims(table, number, record, n):
    """n slots; the rows of a ``batch_steps.Table`` are searched anew."""
    slots = {row[0]: entry for entry, row in table.view.items() if row[0] >= 0 and row[0] not in record.slots}
    next_use = {slot: (uses(table, entry, number) or [None])[0] for slot, entry in slots.items()}
    idle = sorted((table.view[slots[slot]][3], slot) for slot, use in next_use.items() if use is None)
    needed = sorted((-use, slot) for slot, use in next_use.items() if use is not None)
    assert n <= len(idle) + len(needed)
    victims = [slot for _, slot in idle + needed][:n]
    if n:
        table.scores = {slot: score for score, slot in idle if slot not in victims}
    return victims


def release(table, held):
    """The slots that may be victims now stand in the order, once there is one."""
    if table.scores is not None:
        table.scores.update(idle_scores(table, held))


def retain(table, held):
    """The slots that a frame needs leave the order."""
    if table.scores is not None:
        table.scores = drop_held(held, table.view, table.scores)


def oldest_in_window(table):
    return min(table.window)
