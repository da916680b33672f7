"""What is done for all tables of a training ring in one compiled call each: touch, plan, assign, leave their frames.

The steps of one table are in ``ascpipe.tables.steps``; here stand the parts of frames, which they fill, and the
tables' headers.  State words are not stored here but by ``store_words``, when what they publish is written.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.atomics import exchange_u32, load_acquire_i64
from ascpipe.kernels.memory import ints_at, longs_at
from ascpipe.kernels.next_action import (
    CUT_ASKED,
    IS_LOADING,
    NOTHING,
    PLAN,
    RETIRE,
    TOUCH,
    TOUCH_BLOCKED,
    next_train_actions,
)
from ascpipe.layout import structs
from ascpipe.layout.words import PLAN_OK
from ascpipe.shm.ring import read_tables
from ascpipe.tables import state as columns
from ascpipe.tables import steps

ALONE = 16  #: added to the action of a table that a call leaves alone: it takes its turn in Python
LEAVE = 32  #: the action of a table whose frame is retired, and whose entries it has still to let go

_SEQUENCE = (1 << 48) - 1  # the part of a ticket that is not the run
_MOST_INT32 = 2**31 - 1
_COLUMNS, _HEADER, _PLACES = columns.COLUMNS, columns.HEADER, columns.PLACES
_SCRATCH, _SCRATCH_INTS, _TIME, _ROWS, _NEWEST = (
    columns.SCRATCH, columns.SCRATCH_INTS, columns.TIME, columns.ROWS, columns.NEWEST)
_ADMITTED, _FRESH, _LOADS = columns.ADMITTED, columns.FRESH, columns.LOADS
_FIRST_RECORD, _NEXT_RECORD, _RECORD_NUMBER = columns.FIRST_RECORD, columns.NEXT_RECORD, columns.RECORD_NUMBER
_HAS_VICTIMS, _HAS_IMAGES = columns.HAS_VICTIMS, columns.HAS_IMAGES
_BLOCKED, _LOADING = columns.TOUCH_BLOCKED, columns.IS_LOADING

_LOOK_AHEAD, _PLAN_AHEAD = (structs.RING.fields[name][1] // 4 for name in ("look_ahead", "plan_ahead"))
_PART_LONGS = structs.PART.itemsize // 8
_UNIQUE, _OCCURRENCES, _ENTRIES, _SLOTS, _COUNTS, _FREQUENCIES, _MOVE_IN, _OUT_SLOTS, _OUT_ENTRIES, _HOMES = (
    structs.PART.fields[name][1] // 8 for name in (
        "unique", "occurrences", "entries", "slots", "counts", "frequencies", "move_in", "out_slots", "out_entries",
        "homes"))
(_ID_COUNT, _UNIQUE_COUNT, _HELD, _BASE, _HORIZON, _STATUS, _NEED, _FRESH_COUNT, _LOAD_COUNT, _OUT_COUNT, _ROWS_AFTER,
 _FULL, _TIME_AFTER, _ADMITTED_COUNT) = (structs.PART.fields[name][1] // 8 for name in (
     "id_count", "unique_count", "held", "base", "horizon", "status", "need", "fresh_count", "load_count", "out_count",
     "rows", "full", "time", "admitted"))
_FRAME_LONGS = structs.FRAME.itemsize // 8
_TICKET, _OFFSET, _TIMESTAMP = (structs.FRAME.fields[name][1] // 8 for name in ("ticket", "offset", "timestamp"))
_FINISHED, _WORDS = structs.RING_TABLE.fields["finished"][1] // 8, structs.RING_TABLE.fields["words"][1] // 4
_HEADER_LONGS = structs.TABLE.itemsize // 8
(_T_ROWS, _T_TIME, _T_RETIRED, _T_BATCHES, _T_IDS, _T_HITS, _T_MISSES, _T_LOADS, _T_CUT_ASKED, _T_CUT_APPLIED,
 _T_BOUND, _T_COPIED) = (structs.TABLE.fields[name][1] // 8 for name in (
     "rows", "time", "retired", "batches", "ids", "hits", "misses", "loads", "cut_asked", "cut_applied",
     "snapshot_bound", "snapshot_copied"))


@njit("void(int64[::1], boolean[:, ::1])", cache=True, nogil=True)
def _read_flags(states, out_flags):
    """What a look must know of each table beforehand: the FLAGS of ``ascpipe.kernels.next_action``."""
    for table in range(states.shape[0]):
        state = longs_at(states[table], _COLUMNS)
        header = longs_at(state[_HEADER], _HEADER_LONGS)
        asked = load_acquire_i64(header, _T_CUT_ASKED)
        out_flags[table, CUT_ASKED] = asked > load_acquire_i64(header, _T_CUT_APPLIED)
        out_flags[table, TOUCH_BLOCKED] = state[_BLOCKED] != 0
        out_flags[table, IS_LOADING] = state[_LOADING] != 0


@njit("UniTuple(int64, 2)(int64[::1], int32[::1], uint32[::1], int64, int64[::1], int64[::1], boolean[:, ::1], "
      "int64[:, :, ::1], int64[:, ::1], int64[::1], int64[::1])", cache=True, nogil=True)
def look_at_tables(longs, ints, words, frames_at, tables_at, states, out_flags, scratch, counts, out_numbers,
                   out_actions):
    """Look at the frames of a ring once, and say what each of some tables has to do next.

    Args:
        longs, ints, words: int64, int32, uint32 views of the ring segment.
        frames_at: index of the first FRAME in ``longs``.
        tables_at: int64[tables]; index of each table's RING_TABLE in ``longs``.
        states: int64[tables]; addresses of the rows of ``ascpipe.tables.state``.
        out_flags: bool[tables, FLAGS]; receives what was known of each table before the look.
        scratch, counts: int64[tables, 3, MAX_FRAMES], int64[4, tables]; any contents.
        out_numbers, out_actions: int64[tables]; receive the frame and the action of each.

    Returns:
        (how many tables have something to do, how many are granted to the trainer).
    """
    # before the look: who asks for a cut has closed the step before it, and the look must see that
    _read_flags(states, out_flags)
    heads, frames, wanted, places = counts[0], counts[1], counts[2], counts[3]
    read_tables(longs, words, frames_at, tables_at, scratch, heads, frames, wanted)
    ready = next_train_actions(scratch, frames, ints[_LOOK_AHEAD], ints[_PLAN_AHEAD], wanted, out_flags, out_actions,
                               places)
    loading = 0
    for table in range(states.shape[0]):
        out_numbers[table] = heads[table] + places[table]
        loading += np.int64(out_flags[table, IS_LOADING])
    return ready, loading


@njit("UniTuple(int64, 2)(int64[::1], int64, int64, int64)", cache=True)
def _part(longs, frames_at, number, column):
    """(index of a table's part in ``longs``, offset of the frame in bytes)."""
    offset = longs[frames_at + number % _PLACES * _FRAME_LONGS + _OFFSET]
    return offset // 8 + column * _PART_LONGS, offset


@njit("int64(int64[::1], int64, int64)", cache=True)
def _ticket(longs, frames_at, number):
    return longs[frames_at + number % _PLACES * _FRAME_LONGS + _TICKET]


@njit("int64[::1](int64[::1], int64, int64, int64, int64)", cache=True)
def _longs_of(longs, part, offset, field, n):
    start = (offset + longs[part + field]) // 8
    return longs[start:start + n]


@njit("int32[::1](int64[::1], int32[::1], int64, int64, int64, int64)", cache=True)
def _ints_of(longs, ints, part, offset, field, n):
    start = (offset + longs[part + field]) // 4
    return ints[start:start + n]


@njit("int64(int64[::1], int32[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def touch_frames(longs, ints, frames_at, ring_columns, states, numbers, actions):
    """Find or name the entries of the frames whose action is TOUCH.

    Args:
        longs, ints: int64, int32 views of the ring segment.
        frames_at: index of the first FRAME in ``longs``.
        ring_columns: int64[tables]; of each table in the ring.
        states: int64[tables]; addresses of their states.
        numbers, actions: int64[tables]; the frame and the action of each; ALONE is added where there is no room.

    Returns:
        How many were touched.
    """
    done = 0
    for table in range(actions.shape[0]):
        if actions[table] != TOUCH:
            continue
        part, offset = _part(longs, frames_at, numbers[table], ring_columns[table])
        n = longs[part + _UNIQUE_COUNT]
        if steps.touch(longs_at(states[table], _COLUMNS), _longs_of(longs, part, offset, _UNIQUE, n), numbers[table],
                       _ints_of(longs, ints, part, offset, _ENTRIES, n)):
            actions[table] += ALONE
        else:
            longs[part + _HELD] = n
            done += 1
    return done


@njit("boolean(int64[::1], int32[::1], int64, int64, int64, int64[::1], int64)", cache=True, nogil=True)
def _plan(longs, ints, frames_at, table_at, column, state, number):
    """Plan one frame; False if the table must do that alone, and then nothing has changed."""
    part, offset = _part(longs, frames_at, number, column)
    n = longs[part + _UNIQUE_COUNT]
    if longs[part + _HELD] < n or state[_HAS_VICTIMS] != 0 or not steps.can_draft(state, n):
        return False
    held = _ints_of(longs, ints, part, offset, _ENTRIES, n)
    slots, homes = _ints_of(longs, ints, part, offset, _SLOTS, n), _ints_of(longs, ints, part, offset, _HOMES, n)
    counts = _longs_of(longs, part, offset, _COUNTS, n)
    frequencies = _ints_of(longs, ints, part, offset, _FREQUENCIES, n)
    move_in = _ints_of(longs, ints, part, offset, _MOVE_IN, n)
    sequence = min(_ticket(longs, frames_at, number) & _SEQUENCE, _MOST_INT32)
    if steps.draft(state, sequence, held, _ints_of(longs, ints, part, offset, _OCCURRENCES, n), slots, homes, counts,
                   frequencies, move_in) != PLAN_OK or not steps.has_room(state):
        steps.take_back_draft(state, n)
        return False
    fresh, loads = state[_FRESH], state[_LOADS]
    # the view, upon which the plan stands, is the newest pending record's doing, whatever the words say now
    if state[_NEXT_RECORD] > state[_FIRST_RECORD]:
        newest = state[_RECORD_NUMBER + (state[_NEXT_RECORD] - 1) % _PLACES]
        longs[part + _BASE] = _ticket(longs, frames_at, newest)
    else:
        longs[part + _BASE] = load_acquire_i64(longs, table_at + _FINISHED)
    nobody = _ints_of(longs, ints, part, offset, _OUT_SLOTS, 0)
    steps.complete(state, move_in[:fresh + loads], nobody, slots, homes)
    time = max(state[_TIME], longs[frames_at + number % _PLACES * _FRAME_LONGS + _TIMESTAMP])
    steps.put_on(state, number, held, slots, homes, counts, frequencies, move_in[:fresh + loads], nobody, nobody,
                 state[_ROWS] + fresh, time, True)
    steps.pass_by(state, number)
    longs[part + _HORIZON] = _ticket(longs, frames_at, state[_NEWEST])
    longs[part + _STATUS], longs[part + _NEED], longs[part + _FULL] = PLAN_OK, 0, 1
    longs[part + _FRESH_COUNT], longs[part + _LOAD_COUNT], longs[part + _OUT_COUNT] = fresh, loads, 0
    longs[part + _ADMITTED_COUNT] = state[_ADMITTED]
    longs[part + _ROWS_AFTER], longs[part + _TIME_AFTER] = state[_ROWS], time
    return True


@njit("int64(int64[::1], int32[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
      cache=True, nogil=True)
def plan_frames(longs, ints, frames_at, tables_at, ring_columns, states, numbers, actions):
    """Make and write the plans of the frames whose action is PLAN.

    Args:
        longs, ints, frames_at, ring_columns, states, numbers, actions: as those of ``touch_frames``; ALONE is added
            where rows must leave the device, or something does not fit.
        tables_at: int64[tables]; index of each table's RING_TABLE in ``longs``.

    Returns:
        How many were planned.
    """
    done = 0
    for table in range(actions.shape[0]):
        if actions[table] != PLAN:
            continue
        if _plan(longs, ints, frames_at, tables_at[table], ring_columns[table], longs_at(states[table], _COLUMNS),
                 numbers[table]):
            done += 1
        else:
            actions[table] += ALONE
    return done


@njit("void(int64[::1], int64[::1], int64, int64)", cache=True, nogil=True)
def _count_batch(header, longs, part, ticket):
    """For ``ascpipe status`` only: a kill right here counts the batch twice."""
    if header[_T_RETIRED] >= ticket:
        return
    header[_T_BATCHES] += 1
    header[_T_IDS] += longs[part + _ID_COUNT]
    if longs[part + _FULL] != 0:
        misses = longs[part + _FRESH_COUNT] + longs[part + _LOAD_COUNT]
        header[_T_HITS] += longs[part + _ADMITTED_COUNT] - misses
        header[_T_MISSES] += misses
        header[_T_LOADS] += longs[part + _LOAD_COUNT]


@njit("int64(int64[::1], int32[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def assign_frames(longs, ints, frames_at, ring_columns, states, numbers, actions):
    """Assign the records of the frames whose action is RETIRE to the truth, and take them out of the view.

    What ``leave_frames`` needs of a frame is kept, for the frame may be reused once RETIRED is stored.

    Args:
        longs, ints, frames_at, ring_columns, states, numbers, actions: as those of ``touch_frames``; ALONE is added
            where images are kept for a snapshot.

    Returns:
        How many were assigned.
    """
    done = 0
    for table in range(actions.shape[0]):
        if actions[table] != RETIRE:
            continue
        state = longs_at(states[table], _COLUMNS)
        header = longs_at(state[_HEADER], _HEADER_LONGS)
        part, offset = _part(longs, frames_at, numbers[table], ring_columns[table])
        n, outs = longs[part + _HELD], longs[part + _OUT_COUNT]
        moves = longs[part + _FRESH_COUNT] + longs[part + _LOAD_COUNT]
        if (state[_HAS_IMAGES] != 0 or load_acquire_i64(header, _T_COPIED) < header[_T_BOUND]
                or n > state[_SCRATCH_INTS]):
            actions[table] += ALONE
            continue
        held, ticket = _ints_of(longs, ints, part, offset, _ENTRIES, n), _ticket(longs, frames_at, numbers[table])
        steps.assign(state, held, _ints_of(longs, ints, part, offset, _SLOTS, n),
                     _ints_of(longs, ints, part, offset, _HOMES, n), _longs_of(longs, part, offset, _COUNTS, n),
                     _ints_of(longs, ints, part, offset, _FREQUENCIES, n),
                     _ints_of(longs, ints, part, offset, _MOVE_IN, moves),
                     _ints_of(longs, ints, part, offset, _OUT_SLOTS, outs),
                     _ints_of(longs, ints, part, offset, _OUT_ENTRIES, outs), ticket, longs[part + _TIME_AFTER])
        steps.forget(state, n + outs)
        _count_batch(header, longs, part, ticket)
        header[_T_ROWS], header[_T_TIME] = longs[part + _ROWS_AFTER], longs[part + _TIME_AFTER]
        header[_T_RETIRED] = ticket
        ints_at(state[_SCRATCH], n)[:] = held
        state[columns.LEAVING] = n
        done += 1
    return done


@njit("void(int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def leave_frames(states, numbers, actions):
    """Let go of the entries of the frames whose action is LEAVE; it is NOTHING afterwards.

    Args:
        states, numbers, actions: as those of ``touch_frames``.
    """
    for table in range(actions.shape[0]):
        if actions[table] == LEAVE:
            state = longs_at(states[table], _COLUMNS)
            steps.leave(state, ints_at(state[_SCRATCH], state[columns.LEAVING]), numbers[table])
            state[_BLOCKED] = 0
            actions[table] = NOTHING


@njit("void(uint32[::1], int64[::1], int64[::1], int64[::1], int64, int64, uint32)", cache=True, nogil=True)
def store_words(words, tables_at, numbers, actions, action, then, word):
    """Store the same state word for each frame whose action is ``action``, by a full fence.

    Args:
        words: uint32 view of the ring segment.
        tables_at: int64[tables]; index of each table's RING_TABLE, in int64.
        numbers, actions: as those of ``touch_frames``.
        then: what the action is afterwards.
    """
    for table in range(actions.shape[0]):
        if actions[table] == action:
            exchange_u32(words, 2 * tables_at[table] + _WORDS + numbers[table] % _PLACES, np.uint32(word))
            actions[table] = then
