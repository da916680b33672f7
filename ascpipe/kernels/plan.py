"""The record of one batch: which slots its keys use, and what the table is after it.

Plans are made on the *view*: the truth as it will be after the newest record made so far.
The readable version is ``tests/reference/plan.py``.
"""
from numba import njit

from ascpipe.kernels.entry import COUNT, FREQUENCY, SLOT, STATE
from ascpipe.words import TRAINED


@njit(
    "int64(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1])",
    cache=True, nogil=True)
def draft_record(held, occurrences, view_slots, view_counts, view_frequencies,
                 out_slots, out_counts, out_frequencies, out_missing):
    """Fill a record from the view, except the slots of keys that are not on the device.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        occurrences: int32[n]; how often each occurs in the batch.
        view_slots, view_counts, view_frequencies: int32, int64, int32 [capacity]; the view.
        out_slots, out_counts, out_frequencies: int32[n], int64[n], int32[n]; receive absolute new values.
        out_missing: int32[>= n]; receives the indexes (into the batch's keys) that need a slot.

    Returns:
        How many keys need a slot.
    """
    missing = 0
    for i in range(held.shape[0]):
        entry = held[i]
        out_slots[i] = view_slots[entry]
        out_counts[i] = view_counts[entry] + occurrences[i]
        out_frequencies[i] = view_frequencies[entry] + 1
        if view_slots[entry] < 0:
            out_missing[missing] = i
            missing += 1
    return missing


@njit("void(int32[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def place_missing(missing, free_slots, out_slots):
    """Give the keys that need one a slot.

    Args:
        missing: int32[m]; indexes into the batch's keys.
        free_slots: int32[m]; distinct free slots.
        out_slots: int32[n]; the record's slots.
    """
    for i in range(missing.shape[0]):
        out_slots[missing[i]] = free_slots[i]


@njit("void(int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64[::1], int32[::1])",
      cache=True, nogil=True)
def assign_to_view(held, slots, counts, frequencies, view_slots, view_counts, view_frequencies):
    """Assign a record to the view.

    Args:
        held: int32[n]; entry numbers.
        slots, counts, frequencies: int32[n], int64[n], int32[n]; the record's absolute values.
        view_slots, view_counts, view_frequencies: int32, int64, int32 [capacity]; the view.
    """
    for i in range(held.shape[0]):
        entry = held[i]
        view_slots[entry] = slots[i]
        view_counts[entry] = counts[i]
        view_frequencies[entry] = frequencies[i]


@njit("void(int32[::1], int32[:, ::1], int64[:, ::1], int32[::1], int64[::1], int32[::1])", cache=True, nogil=True)
def reset_view(held, entries32, entries, view_slots, view_counts, view_frequencies):
    """Set the view of the given entries back to the truth.

    Args:
        held: int32[n]; entry numbers.
        entries32, entries: the table's entries.
        view_slots, view_counts, view_frequencies: int32, int64, int32 [capacity]; the view.
    """
    for i in range(held.shape[0]):
        entry = held[i]
        view_slots[entry] = entries32[entry, SLOT]
        view_counts[entry] = entries[entry, COUNT]
        view_frequencies[entry] = entries32[entry, FREQUENCY]


@njit("void(int32[::1], int32[::1], int32[:, ::1], int64[:, ::1], int32[::1], int64[::1], int32[::1])",
      cache=True, nogil=True)
def draft_count_only(held, occurrences, entries32, entries, out_slots, out_counts, out_frequencies):
    """Fill the record of a trained batch that this table did not take part in.

    A key with trained state is counted; one without stays a mere name, since no admission is set that its
    count could serve.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        occurrences: int32[n].
        entries32, entries: the table's entries, in the state that the batch finds.
        out_slots, out_counts, out_frequencies: int32[n], int64[n], int32[n]; receive absolute values.
    """
    for i in range(held.shape[0]):
        entry = held[i]
        known = entries32[entry, STATE] == TRAINED
        out_slots[i] = entries32[entry, SLOT]
        out_counts[i] = entries[entry, COUNT] + (occurrences[i] if known else 0)
        out_frequencies[i] = entries32[entry, FREQUENCY] + (1 if known else 0)
