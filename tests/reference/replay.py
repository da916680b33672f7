"""A plan from scratch: returns the record for truth, pending records, frame and window, with sets and sorting only."""
from ascpipe.layout.words import PLAN_DEVICE_SMALL, PLAN_HOST_FULL, PLAN_OK, PLAN_TABLE_FULL
from tests.reference.plan import draft_record

NO_ROW = (-1, -1, 0, 0)


def view_of(truth, records):
    """Return entry -> (slot, home, count, frequency) after all records; a record is a result of ``plan``."""
    view = dict(truth)
    for record in records:
        for entry in record["out_entries"]:
            view[entry] = (-1, *view[entry][1:])
        for entry, slot, home, count, frequency in zip(*(record[name] for name in (
                "held", "slots", "homes", "counts", "frequencies"))):
            place = view.get(entry, NO_ROW)[:2] if slot < 0 and home < 0 else (slot, home)
            view[entry] = (*place, count, frequency)
    return view


def plan(view, held, occurrences, future, device_rows, home_rows, threshold, coefficient, now):
    """Return the record of a batch.

    Args:
        view: entry -> row, see ``view_of``.
        held, occurrences: entries of the batch and their occurrences.
        future: entries of each other frame that is touched, and neither planned nor counted, oldest first.
        device_rows, home_rows: sizes of the table; 0 for none.
        threshold, coefficient: admission of keys, see ``draft_record``.
        now: sequence number of the batch, for frequencies.
    """
    drafted, fresh, loads, admitted = draft_record(
        [view.get(entry, NO_ROW) for entry in held], occurrences, home_rows > 0, device_rows > 0, threshold,
        coefficient, now if device_rows and home_rows else -1)
    rows = sum(row[1 if home_rows else 0] >= 0 for row in view.values()) + len(fresh)
    residents = {row[0]: entry for entry, row in view.items() if row[0] >= 0}
    free_slots = [slot for slot in range(device_rows) if slot not in residents]
    if not home_rows and len(fresh) > len(free_slots):
        return {"status": PLAN_TABLE_FULL, "need": rows}
    if home_rows and device_rows and admitted > device_rows:
        return {"status": PLAN_DEVICE_SMALL, "need": admitted}
    if home_rows and rows > home_rows:
        return {"status": PLAN_HOST_FULL, "need": rows}
    slots, homes, counts, frequencies = (list(column) for column in zip(*drafted)) if drafted else ([], [], [], [])
    move_in = fresh + loads
    out_slots = []
    if device_rows:
        own = {slot for slot in slots if slot >= 0}
        candidates = [slot for slot in residents if slot not in own]

        def next_use(slot):
            return next((i for i, frame in enumerate(future) if residents[slot] in frame), None)

        idle = [slot for slot in candidates if next_use(slot) is None]
        needed = [slot for slot in candidates if next_use(slot) is not None]
        victims = sorted(idle, key=lambda slot: (view[residents[slot]][3], slot)) + sorted(
            needed, key=lambda slot: (-next_use(slot), slot))
        out_slots = victims[:max(0, len(move_in) - len(free_slots))]
        for i, slot in zip(move_in, free_slots[:len(move_in)] + out_slots):
            slots[i] = slot
    if home_rows:
        used = {row[1] for row in view.values()}
        free_homes = (home for home in range(home_rows) if home not in used)
        for i, home in zip(fresh, free_homes):
            homes[i] = home
    out_entries = [residents[slot] for slot in out_slots]
    return {
        "status": PLAN_OK, "need": 0, "held": list(held), "slots": slots, "homes": homes, "counts": counts,
        "frequencies": frequencies, "move_in": move_in, "fresh": len(fresh), "out_slots": out_slots,
        "out_entries": out_entries, "out_homes": [view[entry][1] for entry in out_entries], "rows": rows,
        "admitted": admitted,
    }
