"""Declares the structs and arrays that kernels take.

Those of shared memory are in ``ascpipe.layout.structs``.  Here are the private ones of a table worker, the arrays that
belong together, and the numba type of each.  A kernel names a field by ``record["field"]``, with the JIT on and off;
numba reads it from the struct's address, so nothing is copied.
"""
import functools
from typing import Any, Dict, NamedTuple

import numpy as np

from ascpipe.kernels.compiler import from_dtype, types
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

#: what a table worker knows of one table beyond shared memory: numbers, and the addresses of its arrays;
#: "slot" is always one of the device
PLANNER = np.dtype([
    # what changes with each batch
    ("rows", "<i8"),  # of the view: keys that have a row
    ("time", "<i8"),  # of the view: greatest timestamp
    ("free_entries", "<i8"),  # height of the stack of free entries
    ("free_slots", "<i8"),
    ("home_high_water", "<i8"),  # all home rows from here on are free
    ("free_homes", "<i8"),  # height of the stack of free home rows below
    ("rows_used", "<i8"),  # rows of the view from here on were never used
    ("rows_held", "<i8"),  # rows whose entry is in the window
    ("row_hand", "<i8"),  # the row that is looked at next when one is to be used again
    ("oldest_change", "<i8"),  # numbers, which only grow, of the view's changes: the oldest one,
    ("next_change", "<i8"),  # and the next one
    ("touched", "<u8"),  # bits of the frames in the window
    ("unplanned", "<u8"),  # bits of touched frames that are neither planned nor counted
    ("newest", "<i8"),  # number of the newest frame of the window, while there is one
    ("first_record", "<i8"),  # numbers, which only grow, of the records that are not retired: the oldest one,
    ("next_record", "<i8"),  # and the next one
    ("missing", "<i8"),  # keys of the frame that was touched last that had no entry
    # what has changed between two steps
    ("touch_blocked", "<i8"),  # 1 = the last touch found too few free entries, and none was freed since
    ("is_loading", "<i8"),  # 1 = the table is granted to the trainer
    ("has_images", "<i8"),  # 1 = a snapshot is being copied, or just ended: images are kept before a record is assigned
    ("images_kept_for", "<i8"),  # number of the frame whose images are kept, -1 = none
    ("home_reach", "<i8"),  # what ``home_high_water`` will be after the plan that lacks home rows
    ("home_memory_ended", "<i8"),  # 1 = there is no memory for them
    # sizes
    ("capacity", "<i8"),  # entries at most
    ("device_rows", "<i8"),
    ("home_rows", "<i8"),  # at most, 0 = a table without home rows
    ("least_rows", "<i8"),  # rows of the view that are made before one is used again
    ("change_room", "<i8"),  # changes that there is memory for, a power of two
    ("slot_words", "<i8"),  # uint64 of the tree of free slots
    ("home_stack_room", "<i8"),
    ("scratch_room", "<i8"),  # keys of a frame
    ("list_room", "<i8"),  # rows that a frame may take: of its keys and its victims
    ("victims_filled", "<i8"),  # 1 = the victim order has the slots in use, and no others
    ("first_use", "<i8"),  # number of the frame that scores in the victim order count from
    # addresses; 0 = there is no such array
    ("header_at", "<i8"),  # TABLE
    ("entries_at", "<i8"),  # ENTRY[capacity]
    ("slot_entries_at", "<i8"),  # int32[device_rows]: of the truth
    ("view_at", "<i8"),  # ROW[capacity]
    ("row_of_at", "<i8"),  # int32[capacity]
    ("lists_at", "<i8"),  # int32[MAX_FRAMES, list_room]: rows that each frame of the window took, first those it holds
    ("changes_at", "<i8"),  # CHANGE[change_room]
    ("index_at", "<i8"),  # EXTENT: of the key index
    ("free_entries_at", "<i8"),  # int32[capacity]
    ("slot_words_at", "<i8"),  # uint64[slot_words]
    ("free_homes_at", "<i8"),  # int32[home_stack_room]
    ("scratch_at", "<i8"),  # int32[scratch_room]
    ("lists_scratch_at", "<i8"),  # int32[2 * list_room]
    ("freed_keys_at", "<i8"),  # int64[list_room]
    ("slot_owners_at", "<i8"),  # int32[device_rows]: of the view
    ("order_at", "<i8"),  # ORDER
    ("scores_at", "<i8"),  # int32[device_rows + 1]
    ("numbers_at", "<i8"),  # int64[2 * device_rows]
    ("late_at", "<i8"),  # int64[2 * late_room(device_rows)]
    ("tier_at", "<i8"),  # TIER, of a table with rows on disk
    # by position of the frame in the ring, ``number % MAX_FRAMES``
    ("held_count", "<i8", (MAX_FRAMES,)),  # entries that the frame holds
    ("listed_count", "<i8", (MAX_FRAMES,)),  # rows in its list
    ("time_before", "<i8", (MAX_FRAMES,)),  # ``time`` before the frame's record
    ("record_frame", "<i8", (MAX_FRAMES,)),  # by number of the record: the frame
])

#: a home row or disk slot that no entry has any more, and that readers may still look at
REST = np.dtype([
    ("number", "<i8"),
    ("epoch", "<i8"),  # in which it was left
])

#: what a table worker knows of a table's home rows and disk slots; numbers, and the addresses of its arrays
TIER = np.dtype([
    # what changes with each batch
    ("near", "<i8"),  # number of the newest near frame: rows of frames up to it are to be at home
    ("near_frames", "<u8"),  # bits of near frames, also of those that have a record
    ("lacking", "<i8"),  # keys of near frames that have no home row and none that comes
    ("candidates", "<i8"),  # home rows that may leave, which the victim order has
    ("leaving", "<i8"),  # home rows that are on their way to disk
    ("wanted_next", "<i8"),  # positions, which only grow, in the ring of entries that wait for a home row: the next,
    ("wanted_end", "<i8"),  # and the end
    ("coming_end", "<i8"),  # no row of the view from here on ever had one that comes
    ("under_way", "<i8"),  # requests in their list
    ("homes_rest", "<i8"),  # positions in the ring of home rows that rest: the oldest one,
    ("homes_rest_end", "<i8"),  # and the end
    ("slots_rest", "<i8"),  # the same of disk slots
    ("slots_rest_end", "<i8"),
    ("rests_until", "<i8"),  # readers of up to this epoch may look at whatever is free; 0 = there are none
    ("here_frame", "<i8"),  # number of the frame whose rows were looked for last,
    ("here", "<i8"),  # and how many of its keys have theirs
    ("ordered", "<i8"),  # 1 = the victim order has the home rows that may leave, and no others
    ("first_use", "<i8"),  # number of the frame that scores in the victim order count from
    ("disk_rows", "<i8"),  # entries whose row is on disk
    ("fetch_ahead", "<i8"),  # frames after the next one to plan that may be near
    ("is_derived", "<i8"),  # 1 = all of this is
    # what the disk says
    ("lost", "<i8"),  # home row whose request failed to read the row of an entry, -1 = none
    ("failed_writes", "<i8"),
    ("last_error", "<i8"),  # of these
    # sizes
    ("home_rows", "<i8"),
    ("view_rows", "<i8"),
    ("blocks", "<i8"),
    ("per_block", "<i8"),
    ("wanted_room", "<i8"),  # powers of two
    ("resting_homes_room", "<i8"),
    ("resting_slots_room", "<i8"),
    # addresses
    ("disk_table_at", "<i8"),  # DISK_TABLE
    ("asks_at", "<i8"),  # int32[its asks_room]
    ("requests_at", "<i8"),  # REQUEST[home_rows]
    ("status_at", "<i8"),  # uint8[home_rows]
    ("owners_at", "<i8"),  # int32[home_rows]
    ("coming_at", "<i8"),  # int32[view_rows]
    ("wanted_at", "<i8"),  # int32[wanted_room]
    ("under_way_at", "<i8"),  # int32[home_rows]
    ("resting_homes_at", "<i8"),  # REST[resting_homes_room]
    ("resting_slots_at", "<i8"),  # REST[resting_slots_room]
    ("order_at", "<i8"),  # ORDER
    ("scores_at", "<i8"),  # int32[home_rows + 1]
    ("numbers_at", "<i8"),  # int64[2 * home_rows]
    ("late_at", "<i8"),  # int64[2 * late_room(home_rows)]
    ("masks_at", "<i8"),  # of the slots of the row files; see ``DiskRoom``
    ("counts_at", "<i8"),
    ("following_at", "<i8"),
    ("before_at", "<i8"),
    ("first_at", "<i8"),
    # by position of the frame in the ring
    ("new_keys", "<i8", (MAX_FRAMES,)),  # keys of the frame that count as lacking since they have no row at all
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


@functools.lru_cache(maxsize=None)
def numba_types() -> Dict[str, Any]:
    """The names that stand in signatures of kernels."""
    found = {name: from_dtype(kind) for name, kind in (
        ("Ring", structs.RING), ("Frame", structs.FRAME), ("RingTable", structs.RING_TABLE), ("Part", structs.PART),
        ("Table", structs.TABLE), ("Entry", structs.ENTRY), ("Image", IMAGE), ("Line", LINE),
        ("Extent", EXTENT), ("Row", ROW), ("Change", CHANGE), ("Order", ORDER), ("Planner", PLANNER), ("Turn", TURN),
        ("Rounds", ROUNDS), ("Claims", CLAIMS), ("Listener", LISTENER), ("Tier", TIER), ("Rest", REST),
        ("DiskTable", structs.DISK_TABLE), ("Request", structs.REQUEST))}
    ints, longs = (types.Array(kind, 1, "C") for kind in (types.int32, types.int64))
    found["Index"] = types.NamedTuple((found["Extent"][::1], found["Line"][::1]), Index)
    found["View"] = types.NamedTuple((found["Row"][::1], found["Change"][::1], ints), View)
    found["Victims"] = types.NamedTuple((found["Order"][::1], ints, longs, longs), Victims)
    found["Rules"] = types.NamedUniTuple(types.int64, len(Rules._fields), Rules)
    found["Record"] = types.NamedTuple([longs if field == "counts" else ints for field in Record._fields], Record)
    found["Dedup"] = types.NamedTuple((longs, longs, ints, ints, ints), Dedup)
    found["DiskRoom"] = types.NamedTuple((types.Array(types.uint64, 1, "C"), ints, ints, ints, ints), DiskRoom)
    found["Spread"] = types.UniTuple(types.uint64, 3)
    return found
