"""Kernels that fill the record of one batch. For each key, a record contains the row and the new values of the entry.

Records are based on the view (see ``view``). The plain-Python version is ``tests/reference/plan.py``.
"""
import numpy as np

from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.frequency import next_frequency
from ascpipe.kernels.view import keep_row, prefetch_row
from ascpipe.layout.words import TRAINED


@inner("UniTuple(int64, 3)(Planner, View, Rules, int32[::1], int32[::1], Record)")
def draft_record(planner, view, rules, listed, occurrences, record):
    """Fill a record from the view, and apply the record to the view. New slots and home rows are not assigned yet.

    Args:
        planner, view: state of the table, which must have space for n more changes.
        rules: rules for this batch.
        listed: int32[n]; rows of the batch's keys.
        occurrences: int32[n]; occurrences of each key in the batch. A key with 0 occurrences gets no new row
            (see ``tfops/src/core/cycle_ids.h``).
        record: record of n keys. Slots and home rows receive the current numbers, or -1 for a key that has none or
            is not admitted. Counts and frequencies receive new values. ``move_in``, of n items, receives the indexes
            of admitted keys that need a slot or a home row. Keys without a row are first, then keys whose row is at
            home.

    Returns:
        (number of admitted keys, number of admitted keys without a row, number of admitted keys whose row moves
        in from home).
    """
    slots = record.slots
    homes = record.homes
    move_in = record.move_in
    counts = record.counts
    frequencies = record.frequencies
    rows, changes, _ = view
    n = listed.shape[0]
    change = planner["next_change"]
    moves = rules.has_homes != 0 and rules.has_slots != 0
    admitted = fresh = loads = 0
    for j in range(n):
        i = np.uint64(j)
        prefetch_row(listed, j, rows)
        row = rows[np.uint64(listed[i])]
        slot = row["slot"]
        home = row["home"]
        frequency = row["frequency"]
        count = row["count"] + rules.coefficient * occurrences[i]
        keep_row(listed[i], row, change + j, changes)
        row["count"] = count
        counts[i] = count
        has_none = (home if rules.has_homes else slot) < 0
        if (rules.threshold >= 0 and count < rules.threshold) or (has_none and occurrences[i] == 0):
            slots[i] = -1
            homes[i] = -1
            frequencies[i] = frequency
            continue
        admitted += 1
        slots[i] = slot
        homes[i] = home
        if rules.now >= 0:
            frequency = next_frequency(frequency, np.int32(rules.now))
            row["frequency"] = frequency
        frequencies[i] = frequency
        if has_none:
            move_in[np.uint64(fresh)] = j
            fresh += 1
        elif moves:
            # These items are first filled from the end. If an item is not counted, the next item overwrites
            # it. In a small device table, a branch would often be mispredicted.
            move_in[np.uint64(n - 1 - loads)] = j
            loads += np.int64(slot < 0)
    planner["next_change"] = change + n
    for i in range(loads // 2):
        k = n - loads + i
        move_in[k], move_in[n - 1 - i] = move_in[n - 1 - i], move_in[k]
    for i in range(loads):
        move_in[fresh + i] = move_in[n - loads + i]
    return admitted, fresh, loads


@inner("void(int32[::1], int32[::1], int32[::1])")
def place_missing(missing, numbers, out_numbers):
    """Store new slots or home rows in a record, for the keys that are listed in ``missing``.

    Args:
        missing: int32[m]; indexes into the batch's keys.
        numbers: int32[m]; distinct slots or home rows.
        out_numbers: int32[n]; slots or home rows of the record.
    """
    for i in range(missing.shape[0]):
        out_numbers[missing[i]] = numbers[i]


@entry("void(Rules, int32[::1], Entry[::1], Record)")
def draft_count_only(rules, occurrences, entries, record):
    """Fill the record of a batch that was trained without reading the table's rows.

    A key is counted if it is TRAINED or if the table has admission.

    Args:
        rules: rules of the table.
        occurrences: int32[n]; occurrences of each key in the batch.
        entries: ENTRY[capacity]: entries before the batch.
        record: record of n keys. Its entry numbers are read. Slots and home rows receive -1, because rows do not move.
    """
    for i in range(record.held.shape[0]):
        known = entries[record.held[i]]
        counts = rules.threshold >= 0 or known["state"] == TRAINED
        record.slots[i] = -1
        record.homes[i] = -1
        record.counts[i] = known["count"] + (rules.coefficient * occurrences[i] if counts else 0)
        record.frequencies[i] = known["frequency"]
