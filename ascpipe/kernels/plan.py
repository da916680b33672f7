"""The record of one batch: which rows its keys use, and what the table is after it.

Records are made upon the view (see ``view``).  The readable version is ``tests/reference/plan.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels import view as view_columns
from ascpipe.kernels.entry import COUNT, FREQUENCY, STATE
from ascpipe.kernels.frequency import next_frequency
from ascpipe.kernels.view import TAIL, keep_row, prefetch_row
from ascpipe.layout.words import TRAINED

# places of ``rules``
HAS_HOMES = 0  # 1 = a key's row has its home row, 0 = it is on the device alone
HAS_SLOTS = 1  # 1 = rows are used on the device
THRESHOLD = 2  # occurrences before a key gets a row; -1 = no admission
COEFFICIENT = 3  # how much an occurrence counts now
NOW = 4  # number of the ticket, -1 = use is not scored
RULES = 5
# places of ``tally``
ADMITTED, FRESH, LOADS = range(3)

_ROW, _ROW32 = np.uint64(view_columns.INT64_COLUMNS), np.uint64(view_columns.INT32_COLUMNS)
_COUNT, _PLACES, _FREQUENCY = (
    np.uint64(column) for column in (view_columns.COUNT, view_columns.PLACES, view_columns.FREQUENCY))


@njit("void(int32[::1], int32[::1], int64[::1], uint64[:, ::1], int64[:, ::1], int32[:, ::1], int64[:, ::1], "
      "int64[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def draft_record(held, occurrences, rules, masks, view, view32, changes, ends,
                 out_slots, out_homes, out_counts, out_frequencies, out_move_in, out_tally):
    """Fill a record from the view and put it upon the view, except the new slots and home rows.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        occurrences: int32[n]; how often each occurs in the batch.
        rules: int64[RULES]; what holds for the table and this batch.
        masks, view, view32: the view.
        changes, ends: the view's ring of changes, with room for n more.
        out_slots, out_homes: int32[n]; what each key has, -1 for none and for keys that are not admitted.
        out_counts, out_frequencies: int64[n], int32[n]; receive absolute new values.
        out_move_in: int32[n]; receives the indexes (into the batch's keys) of keys that are admitted and
            need a place: first those without a row, then those whose row is at home.
        out_tally: int64[3]; receives how many keys are admitted, have no row, are at home.
    """
    n = held.shape[0]
    homes, slots = rules[HAS_HOMES] != 0, rules[HAS_SLOTS] != 0
    threshold, coefficient, now = rules[THRESHOLD], rules[COEFFICIENT], rules[NOW]
    tail, cells, kept = ends[TAIL], masks.reshape(-1), changes.reshape(-1)
    rows, rows32 = view.reshape(-1), view32.reshape(-1)  # flat, so that a row is found by a shift
    admitted = fresh = loads = 0
    for j in range(n):
        i = np.uint64(j)
        prefetch_row(held, j, cells)
        row, row32 = np.uint64(held[i]) * _ROW, np.uint64(held[i]) * _ROW32
        count, places, frequency = rows[row + _COUNT], rows[row + _PLACES], rows32[row32 + _FREQUENCY]
        keep_row(held[i], count, places, frequency, tail + j, kept)
        slot, home = np.int32(places), np.int32(places >> 32)
        count += coefficient * occurrences[i]
        rows[row + _COUNT] = count
        out_counts[i] = count
        if threshold >= 0 and count < threshold:
            out_slots[i] = -1
            out_homes[i] = -1
            out_frequencies[i] = frequency
            continue
        admitted += 1
        out_slots[i] = slot
        out_homes[i] = home
        if now >= 0:
            frequency = next_frequency(frequency, np.int32(now))
            rows32[row32 + _FREQUENCY] = frequency
        out_frequencies[i] = frequency
        if (home if homes else slot) < 0:
            out_move_in[np.uint64(fresh)] = j
            fresh += 1
        elif slots and slot < 0:
            loads += 1
            out_move_in[np.uint64(n - loads)] = j  # from the end, for now
    ends[TAIL] = tail + n
    for i in range(loads // 2):
        k = n - loads + i
        out_move_in[k], out_move_in[n - 1 - i] = out_move_in[n - 1 - i], out_move_in[k]
    for i in range(loads):
        out_move_in[fresh + i] = out_move_in[n - loads + i]
    out_tally[ADMITTED], out_tally[FRESH], out_tally[LOADS] = admitted, fresh, loads


@njit("void(int32[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def place_missing(missing, places, out_places):
    """Give the keys that need one a slot, or a home row.

    Args:
        missing: int32[m]; indexes into the batch's keys.
        places: int32[m]; distinct slots or home rows.
        out_places: int32[n]; the record's slots or home rows.
    """
    for i in range(missing.shape[0]):
        out_places[missing[i]] = places[i]


@njit("void(int32[::1], int32[::1], int64[::1], int64[:, ::1], int32[:, ::1], int32[::1], int32[::1], int64[::1], "
      "int32[::1])", cache=True, nogil=True)
def draft_count_only(held, occurrences, rules, entries, entries32, out_slots, out_homes, out_counts, out_frequencies):
    """Fill the record of a trained batch that this table did not take part in.

    A key with trained state is counted; one without stays a mere name, unless admission counts it.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        occurrences: int32[n].
        rules: int64[RULES]; what holds for the table.
        entries, entries32: the table's entries, in the state that the batch finds.
        out_slots, out_homes: int32[n]; receive -1: rows stay where they are.
        out_counts, out_frequencies: int64[n], int32[n]; receive absolute values.
    """
    for i in range(held.shape[0]):
        entry = held[i]
        counts = rules[THRESHOLD] >= 0 or entries32[entry, STATE] == TRAINED
        out_slots[i] = -1
        out_homes[i] = -1
        out_counts[i] = entries[entry, COUNT] + (rules[COEFFICIENT] * occurrences[i] if counts else 0)
        out_frequencies[i] = entries32[entry, FREQUENCY]
