"""Declares the structs and arrays that kernels take.

Structs of shared memory are in ``ascpipe.layout.structs``.  Here are private structs of workers, and the arrays that
belong together; what a table worker knows of a table is in ``planner_memory`` and ``tier_memory``.  A kernel names a
field by ``record["field"]``, with the JIT on and off; numba reads it from the struct's address, so nothing is copied.
``signatures`` has the numba type of each.
"""
from typing import Any, Dict, NamedTuple

import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.layout import structs
from ascpipe.layout.structs import MAX_FRAMES

LINE_KEYS = 5  #: keys in a line of the key index

#: a line of the key index, which is a cache line
LINE = np.dtype([
    ("keys", "<i8", (LINE_KEYS,)),
    ("entries", "<i4", (LINE_KEYS,)),
    ("count", "<i4"),  # how many keys the line holds
])

#: how far a key index extends, and which keys lie where; see ``index``
EXTENT = np.dtype([
    ("keys", "<i8"),  # how many it holds
    ("lines", "<u8"),
    ("lines_before", "<u8"),  # before it began to grow
    ("frontier", "<u8"),  # keys with a hash below it still lie where ``lines_before`` has them
    ("unmoved", "<i8"),  # how many lines these have, the first ones; 0 = it is not growing
    ("room", "<i8"),  # lines that there is address space for
    ("lines_at", "<i8"),  # LINE[room]
    ("spread", "<u8", (3,)),  # that hashes depend on
])

#: a row of the view: what plans ask of an entry; see ``view``
ROW = np.dtype([
    ("mask", "<u8"),  # bit p: the frame at position p of the ring holds the entry, or its record changes it
    ("count", "<i8"),
    ("slot", "<i4"),
    ("home", "<i4"),
    ("frequency", "<i4"),
    ("entry", "<i4"),  # its number, -1 = the row is free
])

#: what a row was before a record changed it; see ``view``
CHANGE = np.dtype([
    ("count", "<i8"),
    ("slot", "<i4"),
    ("home", "<i4"),
    ("frequency", "<i4"),
    ("row", "<i4"),  # its number
])

#: the run and the late slots of the victim order: where each begins and ends; see ``victims``
ORDER = np.dtype([
    ("bound", "<i8"),  # every slot that is in with a score up to here has a number in one of the two
    ("run_next", "<i8"),
    ("run_end", "<i8"),
    ("late_next", "<i8"),
    ("late_end", "<i8"),
    ("late_sorted", "<i8"),  # end of those that are in order
])

#: one table in its ring: what was seen of it and what it has to do next
TURN = np.dtype([
    ("planner_at", "<i8"),  # PLANNER of the table; 0 for a reader
    ("column", "<i8"),  # of the table in the ring
    ("head", "<i8"),  # number of the oldest frame
    ("count", "<i8"),  # how many frames there are
    ("wanted", "<i8"),  # index of the newest frame that a claim waits for, or -1
    ("cut_asked", "<i8"),  # 1 = a change waits to be applied
    ("touch_blocked", "<i8"),  # as the planner's, before the look
    ("is_loading", "<i8"),  # as the planner's, before the look
    ("action", "<i8"),  # what to do: see ``next_action``
    ("number", "<i8"),  # the frame to do it with
    ("plans", "<i8"),  # how many stand unclaimed
    ("lacks", "<i8"),  # what the action lacks: see ``batch_steps``
    ("done", "<i8"),  # 1 = it was carried out
    ("words", "<i8", (MAX_FRAMES,)),  # state of each frame, the oldest first
    ("closed", "<i8", (MAX_FRAMES,)),  # 1 = the frame can no longer be trained
    ("trained", "<i8", (MAX_FRAMES,)),  # 1 = some table claimed the frame
])

#: how far a table worker is with the tables of a ring; see ``ring_rounds.take_step``
ROUNDS = np.dtype([
    ("at", "<i8"),  # the next step
    ("left", "<i8"),  # rounds until its caller looks after other things
    ("acted", "<i8"),  # actions of this round
    ("done", "<i8"),  # actions of all rounds since the caller set it to 0
    ("plans", "<i8"),  # that stood unclaimed for each table at least
])

#: how far a key worker is with the frames of a ring; see ``ring_scan.take_frame_step``
CLAIMS = np.dtype([
    ("at", "<i8"),  # the next step
    ("left", "<i8"),  # frames until its caller looks after other things
    ("done", "<i8"),  # frames that were published since the caller set it to 0
    ("number", "<i8"),  # of the frame that is claimed
    ("parts", "<i8"),  # how many of its parts are deduplicated
    ("largest", "<i8"),  # ids of the largest of these
    ("generation", "<u4"),  # of the key worker
    ("unused", "<u4"),
])

#: a bell that a compiled call looks at, instead of ringing it
LISTENER = np.dtype([
    ("bell_at", "<i8"),  # BELL
    ("may_pause", "<i8"),  # 1 = it is not rung while its owner pauses
    ("waits", "<i8"),  # 1 = it must be rung
])


def _flat(struct: np.dtype) -> np.dtype:
    """A struct in which the fields of an inner struct stand as its own."""
    fields: Dict[str, Any] = {}
    for name in struct.names:
        kind, offset = struct.fields[name][:2]
        if kind.names is None:
            fields[name] = (kind, offset)
        else:
            fields.update({inner: (kind.fields[inner][0], offset + kind.fields[inner][1]) for inner in kind.names})
    return np.dtype({"names": list(fields), "formats": [kind for kind, _ in fields.values()],
                     "offsets": [offset for _, offset in fields.values()], "itemsize": struct.itemsize})


IMAGE = _flat(structs.IMAGE)  #: numba reads no struct inside a struct in place


class Record(NamedTuple):
    """The plan of one batch: absolute values of entries, and the rows that move; arrays of one part of a frame.

    Attributes:
        held, slots, homes, counts, frequencies: int32[n], int32[n], int32[n], int64[n], int32[n]; entry number
            and absolute new values of each key; a slot or home row of -1 leaves what was there.
        move_in: int32[m]; indexes of the keys that get a slot or a home row: first those whose rows are new,
            then those whose rows come from home.
        out_slots, out_entries, out_homes: int32[k]; victims; the last k of ``move_in`` get their slots.
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
    """The keys of a batch and their deduplication; see ``unique``.

    Attributes:
        keys: int64[n].
        unique: int64[>= n]; its first items are the distinct keys in order of first appearance, the others undefined.
        restore: int32[>= n]; the restore index: ``unique[restore[i]] == keys[i]``.
        occurrences: int32[>= n]; how often each distinct key occurs.
        cells: int32[>= scratch_cells(n)]; scratch, any contents.
    """

    keys: np.ndarray
    unique: np.ndarray
    restore: np.ndarray
    occurrences: np.ndarray
    cells: np.ndarray


class Index(NamedTuple):
    """A key index; see ``index``.

    Attributes:
        extent: EXTENT[1]; numba keeps no record in a tuple.
        lines: LINE[room].
    """

    extent: np.ndarray
    lines: np.ndarray


class View(NamedTuple):
    """The view of a table; see ``view``.

    Attributes:
        rows: ROW[capacity]; in any order.
        changes: CHANGE[a power of two]; the ring of changes.
        row_of: int32[capacity]; by entry number: one more than the number of its row, 0 = it has none.
    """

    rows: np.ndarray
    changes: np.ndarray
    row_of: np.ndarray


MOST_SORTED = 1 << 16  #: about as many slots of a victim order are sorted at once: more would take long


@register_jitable
def late_room(rows: int) -> int:
    """Late slots that a victim order of ``rows`` slots has room for."""
    return 64 + min(rows, MOST_SORTED)


class Victims(NamedTuple):
    """The victim order of a table; see ``victims``.

    Attributes:
        order: ORDER[1]; numba keeps no record in a tuple.
        scores: int32[rows + 1]; of the slots that are in, ``NOT_IN`` for the others; the last is no slot's.
        numbers: int64[2 * rows]; the run, and room to sort it.
        late: int64[2 * late_room(rows)]; the late slots, and room to sort them.
    """

    order: np.ndarray
    scores: np.ndarray
    numbers: np.ndarray
    late: np.ndarray


class DiskRoom(NamedTuple):
    """Which slots of a row file are in use, and its blocks by how many of theirs are; see ``disk_slots``.

    Attributes:
        masks: uint64[blocks * mask_words(slots of a block)]; of each block, bit s: its slot s is in use.
        counts: int32[blocks]; slots in use.
        following, before: int32[blocks]; the next and the previous block with the same count, -1 = there is none.
        first: int32[slots of a block + 1]; the first block with each count, -1 = there is none.
    """

    masks: np.ndarray
    counts: np.ndarray
    following: np.ndarray
    before: np.ndarray
    first: np.ndarray


class Rules(NamedTuple):
    """The settings of a table that a plan of one batch depends on.

    Attributes:
        has_homes: 1 = a key's row has its home row, 0 = the table has none.
        has_slots: 1 = rows are used on the device.
        threshold: occurrences before a key gets a row; -1 = no admission.
        coefficient: how much an occurrence counts now.
        now: sequence number of the ticket, -1 = use is not scored.
    """

    has_homes: int
    has_slots: int
    threshold: int
    coefficient: int
    now: int
