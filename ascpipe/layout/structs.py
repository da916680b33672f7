"""Structs of shared memory. Each field is declared once, with a byte offset and the processes that write the field.

``ascpipe/layout/generate.py`` writes the same structs for C++, with the comments, when the ops are built. All
integers are little-endian. The creator writes ``version`` last. While ``version`` is 0, the segment is not
ready. Readers reject other versions.

Kinds of memory:

* the *session segment*: failure text and one bell per process (``SESSION``, ``BELL``)
* a *ring segment* per stream: ``RING``, ``FRAME`` x MAX_FRAMES, ``RING_TABLE`` x tables, byte arena
* a *table segment* per table: ``TABLE``, slots, entries, home rows and a log of ``IMAGE``. If rows are on disk, the
  segment also has ``DISK_TABLE``, a ring of numbers, and a ``REQUEST`` per home row. The header states for how many
  entries, home rows, images and requests memory is allocated; their other bytes are holes.
* a file of *trainer spans*: ``TRAINER_SPANS``, then ``EXCHANGE_SPAN`` or ``READING_SPAN`` x capacity
* a *frame*, inside the arena: ``PART`` per table, ``SPEC`` per feature, then the arrays of each part

Each field's comment begins with its writers: P pump, K key worker, T trainer (plan op), W table worker, D disk worker,
S supervisor. The pump writes all offsets in a ``PART``; their comments name the writer of the array.
"""
import hashlib

from ascpipe.layout import reading, trainer_spans
from ascpipe.layout.declaring import STRUCTS, struct
from ascpipe.layout.words import WORD_NAMES

VERSION = 12  #: increment this number with any change of the bytes below
MAGIC = 0x41534350  #: "PCSA" read as little-endian text
CACHE_LINE = 64
PAGE = 4096

MAX_FRAMES = 64  #: maximum number of frames of one ring, and number of bits of a window mask
MAX_KEY_WORKERS = 16
MAX_TABLE_WORKERS = 16
MAX_SPEC_RANK = 6
DISK_READERS = 2  # maximum number of readers of a table's rows: an evaluation, and a save or a load
DISK_READS = 1024  # maximum number of rows that a reader reads at a time

# Each bell belongs to one waiting thread, so a plain flag shows whether the thread sleeps.
BELL_TRAINER = 0  #: the trainer's waiter thread
BELL_PUMP = 1  #: the trainer's pump thread
BELL_KEY_WORKERS = 2
BELL_TABLE_WORKERS = BELL_KEY_WORKERS + MAX_KEY_WORKERS
BELL_DISK_WORKER = BELL_TABLE_WORKERS + MAX_TABLE_WORKERS
BELLS = BELL_DISK_WORKER + 1

FAILURE_TEXT_BYTES = 2048

BELL = struct(
    "Bell", 64,
    futex=("<u4", 0, "all: raised by each process that rings, after it has published"),
    waiting=("<u4", 4, "owner: bells.ASLEEP or PAUSING while it sleeps or is about to sleep"),
    waits_for=("<i4", 8, "owner: WAIT_*"),
    waits_table=("<i4", 12, "owner: table number or -1"),
    waits_ticket=("<i8", 16, "owner: ticket or 0"),
    sleeps=("<u8", 24, "owner: number of sleeps"),
    late=("<u8", 32, "owner: sleeps that ended by timeout although the condition was true: must stay 0"),
    pid=("<i4", 40, "owner"),
)

SESSION = struct(
    "Session", 4096,
    version=("<u4", 0, "S, last"),
    magic=("<u4", 4, "S"),
    run=("<i8", 8, "S: run number, the upper bits of every ticket"),
    failed=("<u4", 16, "S or W: 0, or the numeric part of the error code"),
    failure_bytes=("<u4", 20, "S or W: length of failure_text"),
    rings_ample=("<i8", 24, "S: maximum size of a ring for ordinary batches; it grows further only for a few large "
                            "ones"),
    rings_most=("<i8", 32, "S: maximum growth of all arenas together, 0 = rings do not grow"),
    is_private=("<u4", 40, "S: 1 = the daemon has its settings from the trainer's environment"),
    failure_text=("S%d" % FAILURE_TEXT_BYTES, 64, "S or W: UTF-8, written before failed"),
)
SESSION_BELLS_OFFSET = 4096

EXCHANGES = struct(
    "Exchanges", 128,
    rank=("<i4", 0, "T: of this process"),
    ranks=("<i4", 4, "T: 0 = there is one rank, and all other fields are 0"),
    exchanges=("<i8", 8, "T: that are over"),
    bytes_sent=("<i8", 16, "T: to other ranks"),
    bytes_received=("<i8", 24, "T: from other ranks"),
    time_us=("<i8", 32, "T: in exchanges"),
    waited_us=("<i8", 40, "T: part of it until the last rank joined"),
    kind=("<i4", 48, "T: kind of the current or last exchange: EXCHANGE_SENTENCES"),
    stream=("<i4", 52, "T: of its batch"),
    ticket=("<i8", 56, "T: batch number in the iterator, 0 = none"),
    since_us=("<i8", 64, "T: CLOCK_MONOTONIC at its start, 0 = no exchange is in flight"),
    slowest=("<i4", 72, "T: rank that other ranks have waited for longest"),
    slowest_us=("<i8", 80, "T: how long"),
)
DISK = struct(
    "Disk", 128,
    used=("<u4", 0, "D, last: 1 = there are row files on this disk"),
    table=("<i4", 4, "D: number of a table with a file on it"),
    file=("<i4", 8, "D: number of the file within the table"),
    queued=("<i8", 16, "D: operations that wait for a thread"),
    under_way=("<i8", 24, "D"),
    deepest=("<i8", 32, "D: maximum number of operations in flight"),
    delayed=("<i8", 40, "D: operations delayed by another one on the same block"),
    rows_read=("<i8", 48, "D: since the start of the disk worker, like the fields below"),
    rows_written=("<i8", 56, "D"),
    read_bytes=("<i8", 64, "D"),
    written_bytes=("<i8", 72, "D"),
    read_p50_us=("<i8", 80, "D: of an operation"),
    read_p99_us=("<i8", 88, "D"),
    write_p50_us=("<i8", 96, "D"),
    write_p99_us=("<i8", 104, "D"),
)
SESSION_DISKS_OFFSET = 6400
MAX_DISKS = 6  #: number of disks that ``ascpipe status`` shows
SESSION_EXCHANGES_OFFSET = 7168
SESSION_READING_OFFSET = 7296  # READING of ascpipe/layout/reading.py
READING = reading.READING
TRAINER_SPANS = trainer_spans.TRAINER_SPANS  # header of a file of spans; one of the structs below per span
EXCHANGE_SPAN = trainer_spans.EXCHANGE_SPAN
READING_SPAN = trainer_spans.READING_SPAN
SESSION_BYTES = 8192

RING = struct(
    "Ring", 320,
    version=("<u4", 0, "S, last"),
    magic=("<u4", 4, "S"),
    stream=("<i4", 8, "S: number of the stream"),
    channel=("<i4", 12, "S: TRAIN, EVAL or LOCAL"),
    frame_count=("<i4", 16, "S: maximum number of frames in use, 1 to MAX_FRAMES"),
    table_count=("<i4", 20, "S"),
    look_ahead=("<i4", 24, "S: number of frames to touch beyond the frame to plan"),
    plan_ahead=("<i4", 28, "S: maximum number of unclaimed plans"),
    arena_offset=("<i8", 32, "S"),
    arena_bytes=("<i8", 40, "S, then P if rings grow: bytes of the arena that have memory"),
    frames_offset=("<i8", 48, "S"),
    tables_offset=("<i8", 56, "S"),
    head=("<i8", 64, "P: number of the oldest frame that was not released"),
    arena_head=("<i8", 72, "P: byte position of that frame, which only grows"),
    rank_size=("<i4", 80, "S: number of ranks that receive keys of a LOCAL ring, otherwise 1"),
    tail=("<i8", 128, "P: number of the next frame"),
    arena_tail=("<i8", 136, "P: byte position after the newest frame, which only grows"),
    submitted=("<i8", 192, "P: tickets taken"),
    dropped=("<i8", 200, "P: parked tickets closed before they got a frame"),
    parked=("<i8", 208, "P: tickets waiting for space"),
    ids=("<i8", 216, "P: ids copied into frames"),
    trained=("<i8", 256, "T: tickets claimed by some table"),
)

FRAME = struct(
    "Frame", 64,
    number=("<i8", 0, "P: frames are numbered without gaps; position in the ring = number % MAX_FRAMES"),
    ticket=("<i8", 8, "P"),
    offset=("<i8", 16, "P: bytes from the start of the segment"),
    length=("<i8", 24, "P: bytes"),
    claim=("<u4", 32, "K by CAS from 0: generation of the key worker that processes it; S clears it after the reap"),
    closed=("<u4", 36, "T: 1 = this ticket can no longer be trained"),
    trained=("<u4", 40, "T: 1 = some table claimed it"),
    timestamp=("<i8", 48, "P: timestamp of the batch, 0 = none"),
)

RING_TABLE = struct(
    "RingTable", 64 + 4 * MAX_FRAMES,
    finished=("<i8", 0, "T before DONE, W before count-only DONE: last ticket this table finished"),
    wanted=("<i8", 8, "T: ticket a claim waits for, or 0"),
    table=("<i4", 16, "S: table number"),
    worker=("<i4", 20, "S: table worker that serves it"),
    words=("(%d,)<u4" % MAX_FRAMES, 64, "P, K, W, T, see docs/internals/protocol.md: word of each frame, by position"),
)

TABLE = struct(
    "Table", 512,
    version=("<u4", 0, "S, last"),
    magic=("<u4", 4, "S"),
    table=("<i4", 8, "S: table number"),
    dim=("<i4", 12, "S: floats of an embedding"),
    device_rows=("<i8", 16, "S"),
    entry_capacity=("<i8", 24, "S: entries at most"),
    entries_offset=("<i8", 32, "S: ENTRY[entry_capacity]"),
    slots_offset=("<i8", 40, "S: int32[device_rows], the entry in each slot"),
    home_capacity=("<i8", 48, "S: maximum number of home rows, 0 = the table is only on the device"),
    row_floats=("<i8", 56, "S: floats of a home row: the embedding, then each optimizer slot"),
    rows=("<i8", 64, "W: trained keys that have a row"),
    retired=("<i8", 72, "W: last ticket assigned to truth"),
    hits=("<i8", 80, "W: distinct keys found on the device, over trained batches"),
    misses=("<i8", 88, "W: distinct keys not found on the device"),
    ids=("<i8", 96, "W: ids of trained batches"),
    batches=("<i8", 104, "W: trained batches of this table"),
    loads=("<i8", 112, "W: misses whose row was swapped in from home"),
    evicted=("<i8", 120, "W: keys deleted by feature eviction"),
    cut_asked=("<i8", 128, "T, last: id of the request"),
    cut_kind=("<i4", 136, "T: CUT_*"),
    load_counting=("<i4", 140, "T, CUT_LOAD: value of counting after it"),
    cut_argument=("<i8", 144, "T, CUT_THRESHOLD: 0 = stop counting, otherwise the threshold; CUT_EVICT: age; "
                              "CUT_LOAD: number of entries"),
    cut_rows=("<i8", 152, "T, CUT_LOAD: number of entries that have a row; they come first"),
    cut_filled=("<i8", 160, "T, CUT_LOAD, last: id of the request whose granted entries are written"),
    load_entries=("<i8", 168, "T, just before: number of entries written; W before the grant: -1"),
    load_time=("<i8", 176, "T, CUT_LOAD: value of time after it"),
    load_threshold=("<i8", 184, "T, CUT_LOAD: value of access_threshold after it"),
    cut_committed=("<i8", 192, "W: id of the request"),
    cut_applied=("<i8", 200, "W, last: id of the request"),
    cut_granted=("<i8", 208, "W, CUT_LOAD: id of the request; the table is empty, and the trainer may write entries "
                             "and rows"),
    cut_status=("<i8", 216, "W, CUT_LOAD, before grant or refusal: PLAN_*; refused = applied, not committed"),
    entries_used=("<i8", 256, "W: entries from this number on were never used; raised before their state is stored"),
    entries_ready=("<i8", 264, "W: entries that have memory"),
    homes_ready=("<i8", 272, "W: home rows that have memory"),
    time=("<i8", 280, "W: greatest timestamp of a trained batch"),
    access_threshold=("<i8", 288, "S, then W by a cut: occurrences before a key gets a row; -1 = no admission"),
    counting=("<i8", 296, "S, then W by a cut: 1 = occurrences are counted"),
    faae_coefficient=("<i8", 304, "S: weight of an occurrence"),
    eviction_threshold=("<i8", 312, "S: age at which an eviction deletes a key; -1 = never"),
    home_offset=("<i8", 320, "S: float32[home_capacity, row_floats]"),
    log_offset=("<i8", 328, "S: IMAGE[log_capacity]"),
    log_capacity=("<i8", 336, "S: images at most"),
    disk_offset=("<i8", 344, "S: offset of DISK_TABLE, 0 = the table has no rows on disk"),
    snapshot_asked=("<i8", 384, "T, last: id of the snapshot"),
    snapshot_bound=("<i8", 392, "T: entries below this number are in the snapshot"),
    snapshot_copied=("<i8", 400, "T: entries below this number are copied; = snapshot_bound: the snapshot is complete"),
    save_waits=("<i8", 408, "T: steps that waited for space in a save's log of home rows"),
    load_keyed=("<i8", 416, "T, CUT_LOAD: id of the request whose entries are all written, so the worker may index "
                            "them"),
    snapshot_logged=("<i8", 448, "W; T stores 0 before a request: images in the log"),
    snapshot_log_ready=("<i8", 456, "W: images that have memory"),
    snapshot_waits=("<i8", 464, "W: number of waits for a full log"),
    unlogged_evicted=("<i8", 472, "W: evicted keys that the eviction log lacks, because it could not be written"),
    unlogged_deleted=("<i8", 480, "T: deleted keys that the eviction log lacks"),
)

ENTRY = struct(  # W writes entries; between cut_granted and cut_filled, T writes entries
    "Entry", 48,
    key=("<i8", 0, "W"),
    count=("<i8", 8, "W: occurrences in trained batches"),
    timestamp=("<i8", 16, "W: timestamp of the last trained batch with this key"),
    last=("<i8", 24, "W: last ticket that used the key"),
    slot=("<i4", 32, "W: device slot or -1"),
    frequency=("<i4", 36, "W: decayed use, see kernels/frequency.py"),
    # the next fields are one word of 8 bytes, so that one store changes all of them
    state=("<u2", 40, "W, last: FREE, NAMED or TRAINED"),
    generation=("<u2", 42, "W: 0; with rows on disk, how often the row was written there"),
    home=("<i4", 44, "W: home row, or -1 = none, or -2 - disk slot"),
)

IMAGE = struct(
    "Image", 56,
    entry=("<i8", 0, "W: its number"),
    content=(ENTRY, 8, "W: the entry at the start of the snapshot"),
)

DISK_TABLE = struct(
    "DiskTable", 256,
    disk_slots=("<i8", 0, "S: at most"),
    asks_room=("<i8", 8, "S: numbers in the ring of requests, a power of two"),
    asks_offset=("<i8", 16, "S: offset of int32[asks_room], numbers of requests, from the start of the segment"),
    requests_offset=("<i8", 24, "S: offset of REQUEST[home_capacity]"),
    reads_offset=("<i8", 32, "S: offset of REQUEST[DISK_READERS, DISK_READS]; entries of these requests are unused"),
    read_rows_offset=("<i8", 40, "S: offset of float32[DISK_READERS, DISK_READS, row_floats]"),
    epoch=("<i8", 64, "W: raised when a location that readers may use was abandoned; starts at 1"),
    asked=("<i8", 72, "W, last: numbers written into the ring"),
    disk_rows=("<i8", 80, "W: rows on disk"),
    fetches=("<i8", 88, "W: rows requested"),
    spills=("<i8", 96, "W: rows sent to disk"),
    waits=("<i8", 104, "W: times that the next frame to plan had rows that were not at home"),
    waiting=("<i8", 112, "W: 1 + number of the frame that waits for its rows, 0 = none"),
    taken=("<i8", 128, "D: numbers taken out of the ring"),
    readers=("(%d,)<i8" % DISK_READERS, 192, "T: epoch at the start of each reader, 0 = it reads nothing"),
    reads_asked=("(%d,)<i8" % DISK_READERS, 208, "T, last: number of requests of each reader"),
)

REQUEST = struct(
    "Request", 32,
    key=("<i8", 0, "W"),
    slot=("<i4", 8, "W: disk slot"),
    entry=("<i4", 12, "W: number of the entry"),
    generation=("<u4", 16, "W: READ: generation of the entry; WRITE: one more"),
    kind=("<i4", 20, "W: REQUEST_READ or REQUEST_WRITE"),
    error=("<i4", 24, "D, before FAILED: an errno, or a Damage of tfops/src/disk/row_format.h"),
    word=("<u4", 28, "W: EMPTY to ASKED, DONE or FAILED to EMPTY; D: ASKED to TAKEN, to DONE or FAILED; last"),
)

SPEC = struct(
    "Spec", 64,
    count=("<i8", 0, "P: ids of this feature"),
    rank=("<i8", 8, "P"),
    shape=("(%d,)<i8" % MAX_SPEC_RANK, 16, "P"),
)

PART = struct(
    "Part", 256,
    id_count=("<i8", 0, "P"),
    spec_count=("<i8", 8, "P"),
    specs=("<i8", 16, "P: SPEC[spec_count]; offset from the start of the frame, like the offsets below"),
    ids=("<i8", 24, "P: int64[id_count]"),
    unique=("<i8", 32, "K: int64[unique_count]"),
    restore=("<i8", 40, "K: int32[id_count]"),
    occurrences=("<i8", 48, "K: int32[unique_count]"),
    entries=("<i8", 56, "W touch: int32[unique_count]"),
    slots=("<i8", 64, "W plan: int32[unique_count], -1 = no row on the device; in an evaluation SLOT_* codes"),
    counts=("<i8", 72, "W plan: int64[unique_count], absolute"),
    frequencies=("<i8", 80, "W plan: int32[unique_count], absolute"),
    move_in=("<i8", 88, "W plan: int32[fresh_count + load_count], indexes into unique"),
    out_slots=("<i8", 96, "W plan: int32[out_count]"),
    out_entries=("<i8", 104, "W plan: int32[out_count]"),
    homes=("<i8", 112, "W plan: int32[unique_count], home row or -1"),
    out_homes=("<i8", 120, "W plan: int32[out_count]"),
    unique_count=("<i8", 128, "K"),
    held=("<i8", 136, "W: entries stored; unique_count, or fewer if the table was full"),
    base=("<i8", 144, "W plan: last ticket that this table has finished when the plan can be claimed"),
    horizon=("<i8", 152, "W plan: last ticket touched"),
    status=("<i8", 160, "W plan: PLAN_*"),
    need=("<i8", 168, "W plan: total number of rows that the batch needs, for the error text"),
    fresh_count=("<i8", 176, "W plan: rows with their initial value, first in move_in"),
    load_count=("<i8", 184, "W plan: rows swapped in from home, next in move_in"),
    out_count=("<i8", 192, "W plan: rows swapped out to home"),
    rows=("<i8", 200, "W plan: TABLE.rows after this ticket"),
    full=("<i8", 208, "W plan: 1 = claimed plan, 0 = count-only record"),
    time=("<i8", 216, "W plan: TABLE.time after this ticket"),
    admitted=("<i8", 224, "W plan: distinct keys that have a row in this batch"),
    weights=("<i8", 232, "P: int32[id_count], weight of each id for counting, until DEDUPED; 0 = 1 each"),
)


def layout_hash() -> int:
    """Return a 63-bit digest of all struct layouts. Trainer and daemon compare digests before memory is mapped."""
    fields = [(name, made.itemsize, sorted((field, str(kind[0]), kind[1]) for field, kind in made.fields.items()))
              for name, made in sorted(STRUCTS.items())]
    text = repr((fields, sorted(WORD_NAMES.items()), VERSION))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def align(size: int, unit: int = CACHE_LINE) -> int:
    """Return the smallest multiple of ``unit`` (a power of two) that is at least ``size``."""
    return (size + unit - 1) & ~(unit - 1)
