"""Argument types of kernels: structs, and tuples of arrays.

``ascpipe.layout.structs`` defines the structs of shared memory. ``planner_memory`` and ``tier_memory`` define the state
of a table worker for one table. This module defines all other private structs of workers. A kernel reads a field with
``record["field"]``, with or without the JIT. numba reads the field at the struct's address without a copy.
The numba types are in ``signatures``.
"""
from typing import Any, Dict, NamedTuple

import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.layout import structs
from ascpipe.layout.structs import MAX_FRAMES

LINE_KEYS = 5  #: keys in a line of the key index

#: line of the key index, which is one cache line
LINE = np.dtype([
    ("keys", "<i8", (LINE_KEYS,)),
    ("entries", "<i4", (LINE_KEYS,)),
    ("count", "<i4"),  # number of keys
])

#: size and progress of growth of a key index; see ``index``
EXTENT = np.dtype([
    ("keys", "<i8"),
    ("lines", "<u8"),
    ("lines_before", "<u8"),  # number of lines before the index began to grow
    ("frontier", "<u8"),  # keys whose hash is lower have not moved; ``lines_before`` determines their home lines
    ("unmoved", "<i8"),  # number of lines, from the first, that have not moved; 0 = the index is not growing
    ("room", "<i8"),  # lines that have address space
    ("lines_at", "<i8"),  # LINE[room]
    ("spread", "<u8", (3,)),  # seed of the hash
])

#: row of the view, with the values of an entry that plans read; see ``view``
ROW = np.dtype([
    ("mask", "<u8"),  # bit p: the frame at position p holds the entry, or the frame's record changes the entry
    ("count", "<i8"),
    ("slot", "<i4"),
    ("home", "<i4"),
    ("frequency", "<i4"),
    ("entry", "<i4"),  # entry number, -1 = the row is free
])

#: values of a row before a record changed it; see ``view``
CHANGE = np.dtype([
    ("count", "<i8"),
    ("slot", "<i4"),
    ("home", "<i4"),
    ("frequency", "<i4"),
    ("row", "<i4"),  # number of the row
])

#: state of the victim order, with its run and its late slots; see ``victims``
ORDER = np.dtype([
    ("bound", "<i8"),  # every slot of the order with a score up to the bound is in the run or late
    ("run_next", "<i8"),
    ("run_end", "<i8"),
    ("late_next", "<i8"),
    ("late_end", "<i8"),
    ("late_sorted", "<i8"),  # end of the sorted late slots
])

#: state of one table in its ring, and its next action
TURN = np.dtype([
    ("planner_at", "<i8"),  # PLANNER of the table; 0 = the ring is only read
    ("column", "<i8"),  # column of the table in the ring
    ("head", "<i8"),  # number of the oldest frame
    ("count", "<i8"),  # number of frames in the ring
    ("wanted", "<i8"),  # index of the newest frame for which a claim waits, or -1
    ("cut_asked", "<i8"),  # 1 = a requested cut is not applied yet
    ("touch_blocked", "<i8"),  # copied from the planner before the frames are read
    ("is_loading", "<i8"),  # copied from the planner before the frames are read
    ("action", "<i8"),  # next action; see ``next_action``
    ("number", "<i8"),  # number of the action's frame
    ("plans", "<i8"),  # number of unclaimed plans
    ("lacks", "<i8"),  # LACKS_* of the action; see ``asks``
    ("done", "<i8"),  # 1 = the action was carried out
    ("words", "<i8", (MAX_FRAMES,)),  # word of each frame, the oldest first
    ("closed", "<i8", (MAX_FRAMES,)),  # 1 = the frame can no longer be trained
    ("trained", "<i8", (MAX_FRAMES,)),  # 1 = some table claimed the frame
])

#: progress of a table worker with the tables of a ring; see ``ring_rounds.take_step``
ROUNDS = np.dtype([
    ("at", "<i8"),
    ("left", "<i8"),  # rounds left before the loop returns
    ("acted", "<i8"),  # actions of this round
    ("done", "<i8"),  # actions of all rounds since the caller set it to 0
    ("plans", "<i8"),  # lowest number of unclaimed plans of any table
])

#: progress of a key worker with the frames of a ring; see ``ring_scan.take_frame_step``
CLAIMS = np.dtype([
    ("at", "<i8"),
    ("left", "<i8"),  # frames left before the loop returns
    ("done", "<i8"),  # frames published since the caller set it to 0
    ("number", "<i8"),  # number of the claimed frame
    ("parts", "<i8"),  # number of parts of this frame to deduplicate
    ("largest", "<i8"),  # ids of the largest of these parts
    ("generation", "<u4"),  # generation of the key worker
    ("unused", "<u4"),
])

#: bell that a compiled call checks but does not ring
LISTENER = np.dtype([
    ("bell_at", "<i8"),  # BELL
    ("may_pause", "<i8"),  # 1 = do not ring while the owner pauses
    ("waits", "<i8"),  # 1 = the bell must be rung
])


def _flat(struct: np.dtype) -> np.dtype:
    """Return a flat struct: each inner struct is replaced by its fields."""
    fields: Dict[str, Any] = {}
    for name in struct.names:
        kind, offset = struct.fields[name][:2]
        if kind.names is None:
            fields[name] = (kind, offset)
        else:
            fields.update({inner: (kind.fields[inner][0], offset + kind.fields[inner][1]) for inner in kind.names})
    return np.dtype({"names": list(fields), "formats": [kind for kind, _ in fields.values()],
                     "offsets": [offset for _, offset in fields.values()], "itemsize": struct.itemsize})


IMAGE = _flat(structs.IMAGE)  #: flat, because numba cannot read a struct inside a struct in place


class Record(NamedTuple):
    """Plan of one batch: the new values of entries, and the rows that move. The arrays are stored in the table's part
    of a frame.

    Attributes:
        held, slots, homes, counts, frequencies: int32[n], int32[n], int32[n], int64[n], int32[n]; entry number
            and new values of each key. If a slot or home row is -1, it does not change.
        move_in: int32[m]; indexes of the keys that get a slot or a home row. New rows are first, then rows from home.
        out_slots, out_entries, out_homes: int32[k]; victims. The last k keys of ``move_in`` get the victims' slots.
    """

    held: np.ndarray
    slots: np.ndarray
    homes: np.ndarray
    counts: np.ndarray
    frequencies: np.ndarray
    move_in: np.ndarray
    out_slots: np.ndarray
    out_entries: np.ndarray
    out_homes: np.ndarray


class Dedup(NamedTuple):
    """Keys of a batch, and the result of deduplicating the keys (``unique``).

    Attributes:
        keys: int64[n].
        unique: int64[>= n]; the first items are the distinct keys in order of first appearance. Other items
            are undefined.
        restore: int32[>= n]; the restore index: ``unique[restore[i]] == keys[i]``.
        occurrences: int32[>= n]; occurrences of each distinct key.
        cells: int32[>= scratch_cells(n)]; scratch of any content.
    """

    keys: np.ndarray
    unique: np.ndarray
    restore: np.ndarray
    occurrences: np.ndarray
    cells: np.ndarray


class Index(NamedTuple):
    """Key index; see ``index``.

    Attributes:
        extent: EXTENT[1]; an array, because numba allows no record in a tuple.
        lines: LINE[room].
    """

    extent: np.ndarray
    lines: np.ndarray


class View(NamedTuple):
    """Arrays of a table's view, which ``view`` describes.

    Attributes:
        rows: ROW[capacity]; in any order.
        changes: CHANGE[a power of two]; the ring of changes.
        row_of: int32[capacity]; row number + 1 of each entry, or 0 if the entry has no row.
    """

    rows: np.ndarray
    changes: np.ndarray
    row_of: np.ndarray


MOST_SORTED = 1 << 16  #: approximate number of slots of a victim order that are sorted in one call, to limit the time


@register_jitable
def late_room(rows: int) -> int:
    """Return how many late slots a victim order of ``rows`` slots may contain (see ``victims``)."""
    return 64 + min(rows, MOST_SORTED)


class Victims(NamedTuple):
    """Arrays of a victim order, which ``victims`` describes.

    Attributes:
        order: ORDER[1]; an array, because numba allows no record in a tuple.
        scores: int32[rows + 1]; score of each slot, or ``NOT_IN`` if the slot is not in the order. The last
            item belongs to no slot.
        numbers: int64[2 * rows]; the run, and space for sorting.
        late: int64[2 * late_room(rows)]; late slots, and space for sorting.
    """

    order: np.ndarray
    scores: np.ndarray
    numbers: np.ndarray
    late: np.ndarray


class DiskRoom(NamedTuple):
    """Used slots of a row file, and a list of blocks for each number of used slots (see ``disk_slots``).

    Attributes:
        masks: uint64[blocks * mask_words(slots of a block)]; bit s of a block's mask is 1 if slot s is in use.
        counts: int32[blocks]; number of slots in use.
        following, before: int32[blocks]; next and previous block with the same count, or -1.
        first: int32[slots of a block + 1]; first block with each count, or -1.
    """

    masks: np.ndarray
    counts: np.ndarray
    following: np.ndarray
    before: np.ndarray
    first: np.ndarray


class Rules(NamedTuple):
    """Settings of a table that affect the plan of one batch.

    Attributes:
        has_homes: 1 if the table has home rows.
        has_slots: 1 if rows are used on the device.
        threshold: occurrences before a key gets a row, or -1 if admission is off.
        coefficient: number that each occurrence adds to the count.
        now: sequence number of the ticket, or -1 if frequencies are not updated.
    """

    has_homes: int
    has_slots: int
    threshold: int
    coefficient: int
    now: int
