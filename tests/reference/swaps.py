"""Plain-Python twins of ``ascpipe/kernels/swaps.py``; marks are a set of slots."""


def mark_slots(slots, mark, marks):
    """The marked slots afterwards."""
    named = {slot for slot in slots if slot >= 0}
    return marks | named if mark else marks - named


def keep_idle(candidates, future, masks, marks, slot_entries):
    return [slot for slot in candidates
            if slot not in marks and slot_entries[slot] >= 0 and not masks[slot_entries[slot]] & future]


def take_farthest(n, future, first, masks, marks, slot_entries):
    """n slots, the farthest next use first, then the lowest slot."""
    order = [(first + i) % 64 for i in range(64)]
    next_use = {slot: next((i for i, place in enumerate(order) if masks[entry] & future & 1 << place),
                           None)
                for slot, entry in enumerate(slot_entries) if entry >= 0 and slot not in marks}
    used = [slot for slot, use in next_use.items() if use is not None]
    return sorted(used, key=lambda slot: (-next_use[slot], slot))[:n]


def put_idle(held, future, masks, rows, scores):
    """The scores of slots in the order afterwards; a row is (slot, home, count, frequency)."""
    idle = [rows[entry] for entry in held if not masks[entry] & future and rows[entry][0] >= 0]
    return {**scores, **{slot: frequency for slot, _, _, frequency in idle}}
