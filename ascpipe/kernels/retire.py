"""Kernels that write finished records to a table's entries, look up rows for evaluations, and evict old keys.

The *truth* is the state of the table in shared memory after the last assigned record.

Records hold absolute values, so assigning a record is idempotent. If a worker dies during an assignment, the restarted
worker assigns the same record again. The plain-Python version is ``tests/reference/retire.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import store_home
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.prefetch import prefetch_end
from ascpipe.kernels.view import AHEAD, is_in_window, prefetch_entry
from ascpipe.layout.words import FREE, HOME_DISK, HOME_NONE, NAMED, SLOT_DISK, SLOT_HOME, SLOT_NONE, TRAINED


@inner("void(int32[::1], int32[::1], Entry[::1], int32[::1])")
def assign_outs(out_slots, out_entries, entries, slot_entries):
    """Remove the victims of a record from their slots in the truth. ``assign_keys`` then assigns the slots to other
    keys.

    Args:
        out_slots, out_entries: int32[n]; slots and entries of the victims.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, or -1.
    """
    n = out_slots.shape[0]
    for i in range(n):
        prefetch_end(entries, np.uint64(out_entries[np.uint64(min(i + AHEAD, n - 1))]))  # cache line of the slot
        entries[out_entries[i]]["slot"] = -1
        slot_entries[out_slots[i]] = -1


@inner("void(Record, int64, int64, Entry[::1], int32[::1])")
def assign_keys(record, ticket, time, entries, slot_entries):
    """Write the new values of a record's keys to the entries in the truth.

    Args:
        record: the record. If a slot or home row is -1, it does not change.
        ticket: ticket of the batch.
        time: time of the table after the batch. It is stored in trained keys even if occurrences are not counted.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, or -1. Only slots of keys that move in change.
    """
    held = record.held
    slots = record.slots
    homes = record.homes
    counts = record.counts
    move_in = record.move_in
    n = held.shape[0]
    for i in range(n):
        prefetch_entry(held, min(i + AHEAD, n - 1), entries)
        known = entries[np.uint64(held[i])]
        known["count"] = counts[i]
        known["frequency"] = record.frequencies[i]
        if slots[i] >= 0:
            known["slot"] = slots[i]
        if homes[i] >= 0:
            known["home"] = homes[i]
        if counts[i] > 0 or known["slot"] >= 0 or known["home"] != HOME_NONE:
            known["last"] = ticket
            known["timestamp"] = time
            known["state"] = TRAINED
        else:
            known["state"] = NAMED
    for i in range(move_in.shape[0]):
        moved = np.uint64(move_in[i])
        if slots[moved] >= 0:
            slot_entries[slots[moved]] = held[moved]


@entry("void(int64, Entry[::1], int32[::1])")
def occupy_slots(used, entries, slot_entries):
    """Fill ``slot_entries``, which maps slots to entries, from the slot numbers in ``entries``.

    Args:
        used: number of entries that were ever used.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; receives the entry of each slot, or -1.
    """
    slot_entries[:] = -1
    for number in range(used):
        slot = entries[number]["slot"]
        if slot >= 0:
            slot_entries[slot] = number


@entry("void(int32[::1], int64, Entry[::1], int32[::1], int32[::1], int32[::1])")
def resolve_entries(found, threshold, entries, out_slots, out_disk_slots, out_generations):
    """Find where the row of each key is stored according to the truth.

    Args:
        found: int32[n]; entry numbers, or -1 for an unknown key.
        threshold: occurrences before a key has a row, or -1 if admission is off.
        entries: ENTRY[capacity].
        out_slots: int32[n]; receives a slot, ``SLOT_HOME - home row``, SLOT_NONE or SLOT_DISK.
        out_disk_slots, out_generations: int32[n]; receive disk slot and generation of rows on disk. Other
            items do not change.
    """
    for i in range(found.shape[0]):
        out_slots[i] = SLOT_NONE
        if found[i] < 0:
            continue
        known = entries[found[i]]
        if known["state"] != TRAINED or (threshold >= 0 and known["count"] < threshold):
            continue
        if known["slot"] >= 0:
            out_slots[i] = known["slot"]
        elif known["home"] >= 0:
            out_slots[i] = SLOT_HOME - known["home"]
        elif known["home"] <= HOME_DISK:
            out_slots[i] = SLOT_DISK
            out_disk_slots[i] = HOME_DISK - known["home"]
            out_generations[i] = known["generation"]


@entry("int64(int64, int64, int64, View, Entry[::1], int32[::1])")
def evict_entries(used, time, age, view, entries, slot_entries):
    """Drop the trained state of keys whose timestamp is at least ``age`` before ``time``.

    The function is idempotent, and can be repeated after an interruption.

    Args:
        used: number of entries that were ever used.
        time: time of the table.
        age: minimum difference between ``time`` and the timestamp of a dropped key.
        view: view of the table. Entries that a frame holds become NAMED, other entries FREE.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, or -1.

    Returns:
        Number of dropped keys.
    """
    dropped = 0
    for number in range(used):
        known = entries[number]
        if known["state"] != TRAINED or time - known["timestamp"] < age:
            continue
        known["timestamp"] = 0  # this is the lowest value, so the key is still old enough after an interruption
        known["count"] = 0
        if known["slot"] >= 0:
            slot_entries[known["slot"]] = -1
        known["slot"] = -1
        known["frequency"] = 0
        state = NAMED if is_in_window(number, view) else FREE
        store_home(known, state, known["generation"] + 1, HOME_NONE)  # last, because this store ends TRAINED
        dropped += 1
    return dropped
