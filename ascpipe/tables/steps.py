"""The steps of a batch in one table, compiled: touch, draft, complete, put on, assign, forget, leave.

Each takes ``state``, the row of ``ascpipe.tables.state``, and calls the kernels with the arrays whose addresses
stand there.  A step that would have to make room first says so and has changed nothing.
"""
import numpy as np
from numba import njit

from ascpipe.kernels import plan
from ascpipe.kernels.entry import INT32_COLUMNS, INT64_COLUMNS
from ascpipe.kernels.free_slots import take_lowest_slots
from ascpipe.kernels.index import LINE_INT64, LINE_KEYS, find_keys, remove_keys
from ascpipe.kernels.memory import ints_at, longs_at, words_at
from ascpipe.kernels.retire import assign_keys, assign_outs
from ascpipe.kernels.touch import leave_window, mark_window, name_keys
from ascpipe.kernels.view import CHANGE_INT64_COLUMNS, put_keys, put_outs, put_places, undo_changes
from ascpipe.kernels.view import INT32_COLUMNS as VIEW_INT32_COLUMNS
from ascpipe.kernels.view import INT64_COLUMNS as VIEW_INT64_COLUMNS
from ascpipe.layout.words import PLAN_DEVICE_SMALL, PLAN_HOST_FULL, PLAN_OK, PLAN_TABLE_FULL
from ascpipe.tables.header import (
    ACCESS_THRESHOLD,
    COUNTING,
    ENTRIES_READY,
    ENTRIES_USED,
    FAAE_COEFFICIENT,
    HEADER_LONGS,
    HOMES_READY,
)
from ascpipe.tables.state import (
    ADMITTED,
    CAPACITY,
    CHANGE_PLACES,
    CHANGES,
    DEVICE_ROWS,
    ENTRIES,
    FIRST_RECORD,
    FREE_ENTRIES,
    FREE_ENTRY_STACK,
    FREE_HOMES,
    FREE_SLOT_WORDS,
    FREE_SLOTS,
    FREED_KEYS,
    FRESH,
    HEAD,
    HEADER,
    HELD_AT,
    HELD_COUNT,
    HIGH_WATER,
    HOME_ROWS,
    HOMES_STACK,
    HOMES_STACKED_MOST,
    LINE_LONGS,
    LINES,
    LOADS,
    NEED,
    NEWEST,
    NEXT_RECORD,
    PLACES,
    RECORD_NUMBER,
    ROWS,
    SCRATCH,
    SCRATCH_INTS,
    SLOT_ENTRIES,
    SLOT_OWNERS,
    SLOT_WORDS,
    SPREAD,
    TAIL,
    TIME,
    TIME_BEFORE,
    TOUCHED,
    UNPLANNED,
    VIEW,
)

_ONE = np.uint64(1)


@njit("uint64(int64)", cache=True, nogil=True)
def frame_bit(number):
    """The bit of a frame in masks of the window."""
    return _ONE << np.uint64(number % PLACES)


@njit("void(int64[::1], int64, uint64, boolean)", cache=True, nogil=True)
def _say(state, column, bit, is_set):
    """Set or clear a bit of a mask in the state."""
    bits = state[column:column + 1].view(np.uint64)
    bits[0] = (bits[0] | bit) if is_set else (bits[0] & ~bit)


@njit("int64[::1](int64[::1])", cache=True, nogil=True)
def _header(state):
    return longs_at(state[HEADER], HEADER_LONGS)


@njit("Tuple((int64[:, ::1], int32[:, ::1]))(int64[::1])", cache=True, nogil=True)
def _entries(state):
    address, capacity = state[ENTRIES], state[CAPACITY]
    return (longs_at(address, capacity * INT64_COLUMNS).reshape(capacity, INT64_COLUMNS),
            ints_at(address, capacity * INT32_COLUMNS).reshape(capacity, INT32_COLUMNS))


@njit("Tuple((int64[::1], int32[::1], UniTuple(uint64, 3)))(int64[::1])", cache=True, nogil=True)
def _index(state):
    spread = state[SPREAD:SPREAD + 3].view(np.uint64)
    return (longs_at(state[LINES], state[LINE_LONGS]), ints_at(state[LINES], 2 * state[LINE_LONGS]),
            (spread[0], spread[1], spread[2]))


@njit("Tuple((uint64[:, ::1], int64[:, ::1], int32[:, ::1]))(int64[::1])", cache=True, nogil=True)
def _view(state):
    """The view, as kernels take it: for masks, for counts, and for the rest."""
    address, capacity = state[VIEW], state[CAPACITY]
    n = capacity * VIEW_INT64_COLUMNS
    return (words_at(address, n).reshape(capacity, VIEW_INT64_COLUMNS),
            longs_at(address, n).reshape(capacity, VIEW_INT64_COLUMNS),
            ints_at(address, 2 * n).reshape(capacity, VIEW_INT32_COLUMNS))


@njit("int64[:, ::1](int64[::1])", cache=True, nogil=True)
def _changes(state):
    places = state[CHANGE_PLACES]
    return longs_at(state[CHANGES], places * CHANGE_INT64_COLUMNS).reshape(places, CHANGE_INT64_COLUMNS)


@njit("void(int64[::1], int64, int32[::1])", cache=True, nogil=True)
def take_into_window(state, number, held):
    """A frame's entries are found: keep them while it is in the window.

    Args:
        state: of the table.
        number: of the frame.
        held: int32[n]; its entry numbers, in memory that stays until the frame is left.
    """
    bit = frame_bit(number)
    mark_window(held, _view(state)[0], bit)
    place = number % PLACES
    state[HELD_AT + place], state[HELD_COUNT + place] = held.ctypes.data, held.shape[0]
    state[NEWEST] = number
    _say(state, TOUCHED, bit, True)
    _say(state, UNPLANNED, bit, True)


@njit("int64(int64[::1], int64[::1], int64, int32[::1])", cache=True, nogil=True)
def touch(state, unique, number, out_held):
    """Find or name the entries of a frame's keys and keep them while it is in the window.

    Args:
        state: of the table.
        unique: int64[n]; distinct keys.
        number: of the frame.
        out_held: int32[n]; receives the entry numbers, in memory that stays until the frame is left.

    Returns:
        0; or how many keys have no entry, if there is no room for them (memory, index, scratch): then nothing has
        changed, and so it is if scratch alone is too small, which counts as one key.
    """
    n = unique.shape[0]
    lines, lines32, spread = _index(state)
    missing = find_keys(unique, n, lines, lines32, spread, out_held)
    if n > state[SCRATCH_INTS]:
        return max(missing, 1)
    if missing:
        header = _header(state)
        used, free = header[ENTRIES_USED], state[FREE_ENTRIES]
        reach = used + max(0, missing - free)
        limit = 3 * LINE_KEYS * (state[LINE_LONGS] // LINE_INT64) // 4
        if reach > header[ENTRIES_READY] or used - free + missing > limit:
            return missing
        if reach > used:
            header[ENTRIES_USED] = reach  # before their state is stored
        entries, entries32 = _entries(state)
        _, view, view32 = _view(state)
        name_keys(unique, used, ints_at(state[FREE_ENTRY_STACK], state[CAPACITY]),
                  state[FREE_ENTRIES:FREE_ENTRIES + 1], lines, lines32, spread, entries, entries32, view, view32,
                  out_held)
    take_into_window(state, number, out_held)
    return 0


@njit("void(int64[::1], int64, int64[::1])", cache=True, nogil=True)
def rules_of(state, sequence, out_rules):
    """What holds for a record now: int64[RULES] of ``ascpipe.kernels.plan``; ``sequence`` is the ticket's."""
    header = _header(state)
    threshold = header[ACCESS_THRESHOLD]
    counts = threshold < 0 or header[COUNTING] != 0
    out_rules[plan.HAS_HOMES], out_rules[plan.HAS_SLOTS] = state[HOME_ROWS] > 0, state[DEVICE_ROWS] > 0
    out_rules[plan.THRESHOLD] = threshold
    out_rules[plan.COEFFICIENT] = header[FAAE_COEFFICIENT] if counts else 0
    out_rules[plan.NOW] = sequence if state[HOME_ROWS] > 0 and state[DEVICE_ROWS] > 0 else -1


@njit("int64(int64[::1], int64, int32[::1], int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1])",
      cache=True, nogil=True)
def draft(state, sequence, held, occurrences, out_slots, out_homes, out_counts, out_frequencies, out_move_in):
    """Fill a record and put it upon the view, except the new slots and home rows, and see whether it fits the table.

    If it does not, it must be taken back (``take_back_draft``).

    Args:
        state: of the table; receives ADMITTED, FRESH, LOADS and NEED.  Its ring of changes has room for n more.
        sequence: of the ticket.
        held, occurrences, out_slots, out_homes, out_counts, out_frequencies, out_move_in: of the batch, as those of
            ``ascpipe.kernels.plan.draft_record``.

    Returns:
        PLAN_OK, or PLAN_TABLE_FULL, PLAN_DEVICE_SMALL, PLAN_HOST_FULL.
    """
    rules = np.empty(plan.RULES, np.int64)
    rules_of(state, sequence, rules)
    masks, view, view32 = _view(state)
    plan.draft_record(held, occurrences, rules, masks, view, view32, _changes(state), state[HEAD:TAIL + 1],
                      out_slots, out_homes, out_counts, out_frequencies, out_move_in, state[ADMITTED:LOADS + 1])
    rows = state[ROWS] + state[FRESH]
    if state[HOME_ROWS] == 0:
        state[NEED] = rows
        return PLAN_OK if state[FRESH] <= state[FREE_SLOTS] else PLAN_TABLE_FULL
    if state[DEVICE_ROWS] > 0 and state[ADMITTED] > state[DEVICE_ROWS]:
        state[NEED] = state[ADMITTED]
        return PLAN_DEVICE_SMALL
    state[NEED] = rows
    return PLAN_OK if rows <= state[HOME_ROWS] else PLAN_HOST_FULL


@njit("void(int64[::1], int64)", cache=True, nogil=True)
def take_back_draft(state, n):
    """Take the draft of a record of n keys off the view."""
    _, view, view32 = _view(state)
    undo_changes(n, view, view32, _changes(state), state[HEAD:TAIL + 1])


@njit("boolean(int64[::1], int64)", cache=True, nogil=True)
def can_draft(state, n):
    """Whether there is memory to draft a record of n keys."""
    return state[TAIL] - state[HEAD] + n <= state[CHANGE_PLACES] and n <= state[SCRATCH_INTS]


@njit("boolean(int64[::1])", cache=True, nogil=True)
def has_room(state):
    """Whether the record that was drafted can be completed without victims, and without more memory."""
    if state[DEVICE_ROWS] > 0 and state[FRESH] + state[LOADS] > state[FREE_SLOTS]:
        return False
    new_homes = max(0, state[FRESH] - state[FREE_HOMES])
    return state[HOME_ROWS] == 0 or new_homes == 0 or state[HIGH_WATER] + new_homes <= _header(state)[HOMES_READY]


@njit("void(int64[::1], int32[::1], int32[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def complete(state, move_in, victims, out_slots, out_homes):
    """Give places to the keys of a drafted record that fits: free slots first, then those of victims.

    Args:
        state: of the table.
        move_in: int32[m]; indexes of the keys that get a place, FRESH of them first.
        victims: int32[k]; their slots; with those that are free there are m.
        out_slots, out_homes: int32[n]; of the record.
    """
    fresh = state[FRESH]
    if state[DEVICE_ROWS] > 0:
        free = move_in.shape[0] - victims.shape[0]
        slots = ints_at(state[SCRATCH], move_in.shape[0])
        take_lowest_slots(state[DEVICE_ROWS], words_at(state[FREE_SLOT_WORDS], state[SLOT_WORDS]), slots[:free])
        slots[free:] = victims
        state[FREE_SLOTS] -= free
        plan.place_missing(move_in, slots, out_slots)
    if state[HOME_ROWS] > 0:
        stack = ints_at(state[HOMES_STACK], state[HOMES_STACKED_MOST])
        for i in range(fresh):
            if state[FREE_HOMES] > 0:
                state[FREE_HOMES] -= 1
                out_homes[move_in[i]] = stack[state[FREE_HOMES]]
            else:
                out_homes[move_in[i]] = state[HIGH_WATER]
                state[HIGH_WATER] += 1


@njit("void(int64[::1], int64, int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], "
      "int32[::1], int64, int64, boolean)", cache=True, nogil=True)
def put_on(state, number, held, slots, homes, counts, frequencies, move_in, out_entries, out_homes, rows, time,
           is_drafted):
    """Put a record upon the view; there is room for its changes, and no frame of it is unplanned any more.

    Args:
        state: of the table.
        number: of the frame.
        held, slots, homes, counts, frequencies, move_in, out_entries, out_homes: of the record; ``out_homes`` is
            filled in.
        rows, time: of the table after it.
        is_drafted: ``draft`` has put it there, except its new places.
    """
    masks, view, view32 = _view(state)
    changes = _changes(state)
    ends = state[HEAD:TAIL + 1]
    put_outs(out_entries, out_homes, masks, view, view32, changes, ends)
    if is_drafted:
        put_places(move_in, held, slots, homes, view32)
    else:
        put_keys(held, slots, homes, counts, frequencies, masks, view, view32, changes, ends)
    if state[SLOT_OWNERS] != 0:
        owners = ints_at(state[SLOT_OWNERS], state[DEVICE_ROWS])
        for i in range(move_in.shape[0]):
            owners[slots[move_in[i]]] = held[move_in[i]]
    state[TIME_BEFORE + number % PLACES] = state[TIME]
    state[RECORD_NUMBER + state[NEXT_RECORD] % PLACES] = number
    state[NEXT_RECORD] += 1
    state[ROWS], state[TIME] = rows, time


@njit("void(int64[::1], int64)", cache=True, nogil=True)
def pass_by(state, number):
    """A frame is no longer one that is still to be planned."""
    _say(state, UNPLANNED, frame_bit(number), False)


@njit("void(int64[::1], int64)", cache=True, nogil=True)
def await_plan(state, number):
    """A frame of the window is to be planned again."""
    _say(state, UNPLANNED, frame_bit(number), True)


@njit("void(int64[::1], int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], "
      "int32[::1], int64, int64)", cache=True, nogil=True)
def assign(state, held, slots, homes, counts, frequencies, move_in, out_slots, out_entries, ticket, time):
    """Assign a record to the truth; once is as good as twice.

    Args:
        state: of the table.
        held, slots, homes, counts, frequencies, move_in, out_slots, out_entries, time: of the record.
        ticket: the batch.
    """
    entries, entries32 = _entries(state)
    slot_entries = ints_at(state[SLOT_ENTRIES], state[DEVICE_ROWS])
    assign_outs(out_slots, out_entries, entries32, slot_entries)
    assign_keys(held, slots, homes, counts, frequencies, move_in, ticket, time, entries, entries32, slot_entries)


@njit("void(int64[::1], int64)", cache=True, nogil=True)
def forget(state, n):
    """Forget how to take back the oldest record, of n changes: it has been assigned."""
    state[HEAD] += n
    state[FIRST_RECORD] += 1


@njit("void(int64[::1], int32[::1], int64)", cache=True, nogil=True)
def leave(state, held, number):
    """Let go of a frame that has been retired and is in the window; there is scratch for its keys.

    Args:
        state: of the table.
        held: int32[n]; its entry numbers, in memory that nobody reuses meanwhile.
        number: of the frame.
    """
    bit = frame_bit(number)
    entries, entries32 = _entries(state)
    masks, _, _ = _view(state)
    lines, lines32, spread = _index(state)
    freed_keys = longs_at(state[FREED_KEYS], state[SCRATCH_INTS])
    freed = leave_window(held, masks, bit, entries, entries32, freed_keys,
                         ints_at(state[FREE_ENTRY_STACK], state[CAPACITY]), state[FREE_ENTRIES:FREE_ENTRIES + 1])
    remove_keys(freed_keys, freed, lines, lines32, spread)
    _say(state, TOUCHED, bit, False)
    _say(state, UNPLANNED, bit, False)
