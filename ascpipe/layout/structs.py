"""Every byte offset of shared memory, in one place.

The C++ twin is ``tfops/src/core/layout.h``; ``tests/house/test_layout_parity.py`` compiles it and
compares each offset.  All integers are little-endian.  ``version`` is written last by the creator: a
reader that sees 0 is early, one that sees another number refuses.

Four kinds of memory:

* the *session segment*: failure text and one bell per process (``SESSION``, ``BELL``);
* a *ring segment* per stream: ``RING``, ``FRAME`` x MAX_FRAMES, ``RING_TABLE`` x tables, byte arena;
* a *table segment* per table: ``TABLE``, slots, entries, home rows, a log of ``IMAGE``; only as much of the last
  three has memory as the header says, the rest of the segment is a hole;
* a *frame*, inside the arena: ``PART`` per table, ``SPEC`` per feature, then the arrays of each part.

Who writes a field is said beside it: P pump, K key worker, T trainer (plan op), W table worker,
S supervisor.
"""
import hashlib
from typing import NamedTuple, Tuple, Union

import numpy as np

from ascpipe.layout.words import (  # noqa: F401  (part of the layout that C++ shares)
    ANSWERED,
    ASKED,
    CLAIMED,
    CUT_EVICT,
    CUT_LOAD,
    CUT_RESET,
    CUT_THRESHOLD,
    DEDUPED,
    DONE,
    EVAL,
    FREE,
    NAMED,
    PLAN_DEVICE_SMALL,
    PLAN_HOST_FULL,
    PLAN_NO_MEMORY,
    PLAN_OK,
    PLAN_TABLE_FULL,
    PLANNED,
    RETIRED,
    SUBMITTED,
    TOUCHED,
    TRAIN,
    TRAINED,
    WAIT_BATCH,
    WAIT_CUT,
    WAIT_LEASE,
    WAIT_NONE,
    WAIT_PLAN,
    WAIT_READ,
    WAIT_ROOM,
    WAIT_SAVE,
    WAIT_SENTENCES,
    WAIT_STEP,
    WORD_NAMES,
)

VERSION = 5  #: of this file; any change of a byte below raises it
MAGIC = 0x41534350  #: "PCSA" read as little-endian text
CACHE_LINE = 64
PAGE = 4096

MAX_FRAMES = 64  #: frames of one ring; also bits of a window mask
MAX_KEY_WORKERS = 16
MAX_TABLE_WORKERS = 16
MAX_SPEC_RANK = 6

# Bells: each belongs to one waiting thread, so a plain flag says whether it sleeps.
BELL_TRAINER = 0  #: the trainer's waiter thread
BELL_PUMP = 1  #: the trainer's pump thread
BELL_KEY_WORKERS = 2
BELL_TABLE_WORKERS = BELL_KEY_WORKERS + MAX_KEY_WORKERS
BELLS = BELL_TABLE_WORKERS + MAX_TABLE_WORKERS

FAILURE_TEXT_BYTES = 2048

_LEAST_IMAGES = 1 << 16  # some batches


def _struct(itemsize: int, **fields: Tuple[Union[str, np.dtype], int]) -> np.dtype:
    return np.dtype({
        "names": list(fields), "formats": [field[0] for field in fields.values()],
        "offsets": [field[1] for field in fields.values()], "itemsize": itemsize,
    })


BELL = _struct(
    64,
    futex=("<u4", 0),  # bumped by whoever rings, after it has published
    waiting=("<u4", 4),  # 1 while the owner sleeps or is about to
    waits_for=("<i4", 8),  # WAIT_*, by the owner
    waits_table=("<i4", 12),  # table number or -1
    waits_ticket=("<i8", 16),
    sleeps=("<u8", 24),  # times the owner went to sleep
    late=("<u8", 32),  # sleeps that ended by slice although the condition was true: must stay 0
    pid=("<i4", 40),
)

SESSION = _struct(
    4096,
    version=("<u4", 0),  # S, last
    magic=("<u4", 4),
    run=("<i8", 8),  # S: run number, upper 16 bits of every ticket
    failed=("<u4", 16),  # S or W: 0, or the numeric part of the error code
    failure_bytes=("<u4", 20),
    rings_ample=("<i8", 24),  # S: how large a ring grows for any batch that waits; beyond that, for few large ones
    rings_most=("<i8", 32),  # S: to how much the arenas of all rings may grow together, 0 = rings do not grow
    is_private=("<u4", 40),  # S: 1 = the daemon has its settings from the trainer's environment
    failure_text=("S%d" % FAILURE_TEXT_BYTES, 64),  # UTF-8, written before `failed`
)
SESSION_BELLS_OFFSET = 4096
SESSION_BYTES = 8192

RING = _struct(
    320,
    version=("<u4", 0),  # S, last
    magic=("<u4", 4),
    stream=("<i4", 8),
    channel=("<i4", 12),
    frame_count=("<i4", 16),  # frames in use at most, 1 to MAX_FRAMES
    table_count=("<i4", 20),
    look_ahead=("<i4", 24),  # L
    plan_ahead=("<i4", 28),  # P
    arena_offset=("<i8", 32),
    arena_bytes=("<i8", 40),  # S, then P where rings grow: those that have memory
    frames_offset=("<i8", 48),
    tables_offset=("<i8", 56),
    head=("<i8", 64),  # P: number of the oldest frame not given back
    arena_head=("<i8", 72),  # P: ever-growing byte position of that frame
    tail=("<i8", 128),  # P: number of the next frame
    arena_tail=("<i8", 136),  # P
    submitted=("<i8", 192),  # P: tickets taken
    dropped=("<i8", 200),  # P: parked tickets closed before they got a frame
    parked=("<i8", 208),  # P: tickets waiting for room
    ids=("<i8", 216),  # P: ids copied into frames
    trained=("<i8", 256),  # T: tickets claimed by some table
)

FRAME = _struct(
    64,
    number=("<i8", 0),  # P: frames are numbered without gaps; place = number % MAX_FRAMES
    ticket=("<i8", 8),  # P
    offset=("<i8", 16),  # P: bytes from the start of the segment
    length=("<i8", 24),  # P
    claim=("<u4", 32),  # K by CAS from 0: generation of the key worker at work; S clears it after the reap
    closed=("<u4", 36),  # T: 1 = nobody can train this ticket any more
    trained=("<u4", 40),  # T: 1 = some table claimed it
    timestamp=("<i8", 48),  # P: of the batch, 0 = it has none
)

RING_TABLE = _struct(
    64 + 4 * MAX_FRAMES,
    finished=("<i8", 0),  # T before DONE, W before count-only DONE: last ticket this table finished
    wanted=("<i8", 8),  # T: ticket a claim waits for, or 0
    table=("<i4", 16),  # S: table number
    worker=("<i4", 20),  # S: table worker that serves it
    words=("(%d,)<u4" % MAX_FRAMES, 64),  # by place
)

TABLE = _struct(
    512,
    version=("<u4", 0),  # S, last
    magic=("<u4", 4),
    table=("<i4", 8),
    dim=("<i4", 12),
    device_rows=("<i8", 16),
    entry_capacity=("<i8", 24),  # entries at most
    entries_offset=("<i8", 32),
    slots_offset=("<i8", 40),
    home_capacity=("<i8", 48),  # home rows at most, 0 = the table lives on the device alone
    row_floats=("<i8", 56),  # of a home row: the embedding, then each optimizer slot
    rows=("<i8", 64),  # W: trained keys that have a row
    retired=("<i8", 72),  # W: last ticket assigned to truth
    hits=("<i8", 80),  # W: distinct keys found on the device, over trained batches
    misses=("<i8", 88),  # W: distinct keys that were not
    ids=("<i8", 96),  # W: ids of trained batches
    batches=("<i8", 104),  # W: trained batches of this table
    loads=("<i8", 112),  # W: of the misses, rows that came from home
    evicted=("<i8", 120),  # W: keys dropped by feature eviction
    cut_asked=("<i8", 128),  # T: id of the request, last
    cut_kind=("<i4", 136),  # T
    load_counting=("<i4", 140),  # T, CUT_LOAD: TABLE.counting after it
    cut_argument=("<i8", 144),  # T: CUT_THRESHOLD: 0 = stop counting, else the threshold; CUT_EVICT: age;
    # CUT_LOAD: how many entries there will be
    cut_rows=("<i8", 152),  # T, CUT_LOAD: how many of them, the first ones, have a row
    cut_filled=("<i8", 160),  # T, CUT_LOAD: id of the request, last: what was granted is written
    load_entries=("<i8", 168),  # T, just before: all entries are written, and so many; W before the grant: -1
    load_time=("<i8", 176),  # T, CUT_LOAD: TABLE.time after it
    load_threshold=("<i8", 184),  # T, CUT_LOAD: TABLE.access_threshold after it
    cut_committed=("<i8", 192),  # W
    cut_applied=("<i8", 200),  # W, last
    cut_granted=("<i8", 208),  # W, CUT_LOAD: id of the request: the table is empty, entries and rows are the trainer's
    cut_status=("<i8", 216),  # W, CUT_LOAD, before it is granted or refused: PLAN_*; refused = applied, not committed
    entries_used=("<i8", 256),  # W: entries from here on were never used; raised before their state is stored
    entries_ready=("<i8", 264),  # W: entries whose memory is there
    homes_ready=("<i8", 272),  # W: home rows whose memory is there
    time=("<i8", 280),  # W: greatest timestamp of a trained batch
    access_threshold=("<i8", 288),  # S, then W by a cut: occurrences before a key gets a row; -1 = no admission
    counting=("<i8", 296),  # S, then W by a cut: 1 = occurrences are counted
    faae_coefficient=("<i8", 304),  # S: how much an occurrence counts
    eviction_threshold=("<i8", 312),  # S: age at which a key is dropped by an eviction; -1 = never
    home_offset=("<i8", 320),  # float32[home_capacity, row_floats]
    log_offset=("<i8", 328),  # S: IMAGE[log_capacity]
    log_capacity=("<i8", 336),  # S: images at most
    snapshot_asked=("<i8", 384),  # T: id of the snapshot, last
    snapshot_bound=("<i8", 392),  # T: it is of the entries below
    snapshot_copied=("<i8", 400),  # T: entries below are copied; = snapshot_bound: it is over
    save_waits=("<i8", 408),  # T: steps that waited for room in a save's log of home rows
    load_keyed=("<i8", 416),  # T, CUT_LOAD: id of the request: every entry is written, the worker may index them
    snapshot_logged=("<i8", 448),  # W; T stores 0 before it asks: images in the log
    snapshot_log_ready=("<i8", 456),  # W: images whose memory is there
    snapshot_waits=("<i8", 464),  # W: times it waited because the log was full
)

ENTRY = _struct(
    48,
    key=("<i8", 0),
    count=("<i8", 8),  # occurrences in trained batches
    timestamp=("<i8", 16),
    last=("<i8", 24),  # last ticket that used it
    slot=("<i4", 32),  # device slot or -1
    state=("<i4", 36),  # FREE, NAMED, TRAINED; written last
    frequency=("<i4", 40),  # decayed use, see kernels/frequency.py
    home=("<i4", 44),  # home row or -1
)

IMAGE = _struct(
    56,
    entry=("<i8", 0),  # its number
    content=(ENTRY, 8),  # as it was when the snapshot began
)

SPEC = _struct(
    64,
    count=("<i8", 0),  # ids of this feature
    rank=("<i8", 8),
    shape=("(%d,)<i8" % MAX_SPEC_RANK, 16),
)

PART = _struct(
    256,
    id_count=("<i8", 0),  # P
    spec_count=("<i8", 8),  # P
    specs=("<i8", 16),  # P: offsets from the start of the frame, here and below
    ids=("<i8", 24),  # int64[id_count]; P
    unique=("<i8", 32),  # int64[unique_count]; K
    restore=("<i8", 40),  # int32[id_count]; K
    occurrences=("<i8", 48),  # int32[unique_count]; K
    entries=("<i8", 56),  # int32[unique_count]; W touch
    slots=("<i8", 64),  # int32[unique_count], -1 = no row on the device; W plan; evaluation: SLOT_* codes
    counts=("<i8", 72),  # int64[unique_count], absolute; W plan
    frequencies=("<i8", 80),  # int32[unique_count], absolute; W plan
    move_in=("<i8", 88),  # int32[fresh_count + load_count], indexes into unique; W plan
    out_slots=("<i8", 96),  # int32[out_count]; W plan
    out_entries=("<i8", 104),  # int32[out_count]; W plan
    homes=("<i8", 112),  # int32[unique_count], home row or -1; W plan
    out_homes=("<i8", 120),  # int32[out_count]; W plan
    unique_count=("<i8", 128),  # K
    held=("<i8", 136),  # W: entries stored; unique_count, or fewer when the table had no room
    base=("<i8", 144),  # W plan: last ticket this table finished when the plan's turn comes
    horizon=("<i8", 152),  # W plan: last ticket touched
    status=("<i8", 160),  # W plan: PLAN_*
    need=("<i8", 168),  # W plan: rows the batch needs in all, for the error text
    fresh_count=("<i8", 176),  # W plan: first in move_in, rows that get their initial value
    load_count=("<i8", 184),  # W plan: then rows that come from home
    out_count=("<i8", 192),  # W plan
    rows=("<i8", 200),  # W plan: absolute TABLE.rows after this ticket
    full=("<i8", 208),  # W plan: 1 = claimed plan, 0 = count-only record
    time=("<i8", 216),  # W plan: absolute TABLE.time after this ticket
    admitted=("<i8", 224),  # W plan: distinct keys that have a row in this batch
)

STRUCTS = {
    "Bell": BELL, "Session": SESSION, "Ring": RING, "Frame": FRAME, "RingTable": RING_TABLE, "Table": TABLE,
    "Entry": ENTRY, "Image": IMAGE, "Spec": SPEC, "Part": PART,
}


def layout_hash() -> int:
    """63-bit digest of every offset above; both sides exchange it before they map anything."""
    fields = [(name, struct.itemsize, sorted((field, str(kind[0]), kind[1]) for field, kind in struct.fields.items()))
              for name, struct in sorted(STRUCTS.items())]
    text = repr((fields, sorted(WORD_NAMES.items()), VERSION))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def align(size: int, unit: int = CACHE_LINE) -> int:
    """The smallest multiple of ``unit`` (a power of two) that is at least ``size``."""
    return (size + unit - 1) & ~(unit - 1)


#: arrays of a part in the order in which they lie in a frame: name of the offset field, bytes per id
PART_ARRAYS = (
    ("ids", 8), ("unique", 8), ("restore", 4), ("occurrences", 4), ("entries", 4), ("slots", 4), ("counts", 8),
    ("frequencies", 4), ("move_in", 4), ("out_slots", 4), ("out_entries", 4), ("homes", 4), ("out_homes", 4),
)


def part_bytes(id_count: int, spec_count: int) -> int:
    """Bytes that the specs and arrays of one part take in a frame (without its PART)."""
    return spec_count * SPEC.itemsize + sum(align(size * id_count) for _, size in PART_ARRAYS)


def frame_bytes(parts: Tuple[Tuple[int, int], ...]) -> int:
    """Bytes of a frame whose parts are (id_count, spec_count)."""
    return len(parts) * PART.itemsize + sum(part_bytes(*part) for part in parts)


class RingShape(NamedTuple):
    """Where the pieces of a ring segment lie, all in bytes."""

    frames_offset: int
    tables_offset: int
    arena_offset: int
    total_bytes: int


def ring_shape(table_count: int, arena_bytes: int) -> RingShape:
    """Offsets of a ring segment for ``table_count`` tables and an arena of ``arena_bytes``."""
    frames = align(RING.itemsize)
    tables = frames + MAX_FRAMES * FRAME.itemsize
    arena = align(tables + table_count * RING_TABLE.itemsize, PAGE)
    return RingShape(frames, tables, arena, align(arena + arena_bytes, PAGE))


class TableShape(NamedTuple):
    """Where the pieces of a table segment lie, all in bytes.  Those that grow begin on a page."""

    slots_offset: int
    entries_offset: int
    home_offset: int
    log_offset: int
    total_bytes: int


def table_shape(device_rows: int, entry_capacity: int, home_capacity: int = 0, row_floats: int = 0) -> TableShape:
    """Offsets of a table segment.

    Args:
        device_rows: slots.
        entry_capacity: entries at most.
        home_capacity: home rows at most, 0 for a table on the device alone.
        row_floats: floats of a home row.
    """
    slots = align(TABLE.itemsize)
    entries = align(slots + 4 * device_rows, PAGE)
    homes = align(entries + entry_capacity * ENTRY.itemsize, PAGE)
    log = align(homes + 4 * home_capacity * row_floats, PAGE)
    return TableShape(slots, entries, homes, log, align(log + log_capacity(entry_capacity) * IMAGE.itemsize, PAGE))


def log_capacity(entry_capacity: int) -> int:
    """Images that the log of a table holds at most: what training changes while a snapshot of it is copied."""
    return min(entry_capacity, max(_LEAST_IMAGES, entry_capacity // 16))
