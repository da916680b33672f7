// Written by ascpipe/layout/generate.py from ascpipe/layout: change it there.
#ifndef ASCPIPE_CORE_LAYOUT_GEN_H_
#define ASCPIPE_CORE_LAYOUT_GEN_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {
namespace layout {

constexpr std::uint32_t kVersion = 10;
constexpr std::uint32_t kMagic = 1095975760;
constexpr int kMaxFrames = 64;
constexpr int kMaxKeyWorkers = 16;
constexpr int kMaxTableWorkers = 16;
constexpr int kMaxSpecRank = 6;
constexpr int kDiskReaders = 2;
constexpr int kDiskReads = 1024;
constexpr int kBellTrainer = 0;
constexpr int kBellPump = 1;
constexpr int kBellKeyWorkers = 2;
constexpr int kBellTableWorkers = 18;
constexpr int kBellDiskWorker = 34;
constexpr int kBells = 35;
constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kSessionBellsOffset = 4096;
constexpr std::int64_t kSessionExchangesOffset = 7168;
constexpr std::int64_t kSessionBytes = 8192;
constexpr std::size_t kFailureTextBytes = 2048;
constexpr std::int32_t kSlotNone = -1;
constexpr std::int32_t kSlotHome = -2;
constexpr std::int32_t kSlotFrozen = 1073741824;
constexpr std::int32_t kSlotDisk = -2147483648;
constexpr std::int32_t kHomeNone = -1;
constexpr std::int32_t kHomeDisk = -2;
constexpr int kSequenceBits = 48;
constexpr std::int64_t kSequenceMask = 281474976710655;
constexpr std::int64_t kMostRuns = 32767;
constexpr std::uint32_t kAwake = 0;
constexpr std::uint32_t kAsleep = 1;
constexpr std::uint32_t kPausing = 2;
constexpr int kSliceMs = 50;
constexpr int kIdleSliceMs = 1000;
constexpr int kGraceMs = 20;
constexpr std::int64_t kLeastSpinNs = 20000;
constexpr std::int64_t kLayoutHash = 3910705388806398635;

enum Word : std::uint32_t {
  kSubmitted = 0,
  kDeduped = 1,
  kTouched = 2,
  kPlanned = 3,
  kClaimed = 4,
  kDone = 5,
  kRetired = 6,
  kAsked = 8,
  kAnswered = 9,
};

enum Channel : std::int32_t {
  kTrain = 0,
  kEval = 1,
  kLocal = 2,
};

enum EntryState : std::int32_t {
  kFree = 0,
  kNamed = 1,
  kTrained = 2,
};

enum PlanStatus : std::int64_t {
  kPlanOk = 0,
  kPlanTableFull = 1,
  kPlanDeviceSmall = 2,
  kPlanHostFull = 3,
  kPlanNoMemory = 4,
  kPlanHostSmall = 5,
};

enum CutKind : std::int32_t {
  kCutReset = 1,
  kCutThreshold = 2,
  kCutEvict = 3,
  kCutLoad = 4,
};

enum RequestWord : std::uint32_t {
  kRequestEmpty = 0,
  kRequestAsked = 1,
  kRequestTaken = 2,
  kRequestDone = 3,
  kRequestFailed = 4,
};

enum RequestKind : std::int32_t {
  kRequestRead = 1,
  kRequestWrite = 2,
};

enum WaitsFor : std::int32_t {
  kWaitNone = 0,
  kWaitBatch = 1,
  kWaitRoom = 2,
  kWaitPlan = 3,
  kWaitStep = 4,
  kWaitLease = 5,
  kWaitRead = 6,
  kWaitCut = 7,
  kWaitSave = 8,
  kWaitRanks = 9,
  kWaitKeys = 10,
  kWaitDisk = 11,
};

enum InitialKind : std::int32_t {
  kInitialConstant = 0,
  kInitialUniform = 1,
  kInitialNormal = 2,
  kInitialTruncatedNormal = 3,
  kInitialPool = 4,
};

// What a thread waits for, by WaitsFor.
constexpr const char* kWaitSentences[] = {
  "nothing",
  "the next batch",
  "room in the ring",
  "the table worker to plan it",
  "an earlier batch to be trained or dropped",
  "another step to end",
  "the table worker to answer an evaluation",
  "the table worker to apply a change",
  "room in the log of a save",
  "the other ranks",
  "the key worker to deduplicate its keys",
  "the disk worker to read rows",
};

struct Bell {
  std::uint32_t futex;  // all: raised by each process that rings, after it has published
  std::uint32_t waiting;  // owner: bells.ASLEEP or PAUSING while it is, or is about to be
  std::int32_t waits_for;  // owner: WAIT_*
  std::int32_t waits_table;  // owner: table number or -1
  std::int64_t waits_ticket;  // owner: ticket or 0
  std::uint64_t sleeps;  // owner: times it went to sleep
  std::uint64_t late;  // owner: sleeps that ended by timeout although the condition was true: must stay 0
  std::int32_t pid;  // owner
  std::uint8_t unused44[20];
};
static_assert(sizeof(Bell) == 64, "Bell");

struct Session {
  std::uint32_t version;  // S, last
  std::uint32_t magic;  // S
  std::int64_t run;  // S: run number, the upper bits of every ticket
  std::uint32_t failed;  // S or W: 0, or the numeric part of the error code
  std::uint32_t failure_bytes;  // S or W: length of failure_text
  std::int64_t rings_ample;  // S: how large a ring grows for any batch that waits; beyond that, for few large ones
  std::int64_t rings_most;  // S: how much the arenas of all rings may grow together, 0 = rings do not grow
  std::uint32_t is_private;  // S: 1 = the daemon has its settings from the trainer's environment
  std::uint8_t unused44[20];
  char failure_text[2048];  // S or W: UTF-8, written before failed
  std::uint8_t unused2112[1984];
};
static_assert(sizeof(Session) == 4096, "Session");

struct Exchanges {
  std::int32_t rank;  // T: of this process
  std::int32_t ranks;  // T: 0 = there is one rank, and all else is 0
  std::int64_t exchanges;  // T: that are over
  std::int64_t bytes_sent;  // T: to other ranks
  std::int64_t bytes_received;  // T: from other ranks
  std::int64_t time_us;  // T: in exchanges
  std::int64_t waited_us;  // T: of that, until the last rank began them
  std::int32_t kind;  // T: of the exchange under way, or the last one: EXCHANGE_SENTENCES
  std::int32_t stream;  // T: of its batch
  std::int64_t ticket;  // T: its number in the iterator, 0 = it has none
  std::int64_t since_us;  // T: CLOCK_MONOTONIC of its begin, 0 = none is under way
  std::int32_t slowest;  // T: rank that the others have waited for longest
  std::uint8_t unused76[4];
  std::int64_t slowest_us;  // T: how long
  std::uint8_t unused88[40];
};
static_assert(sizeof(Exchanges) == 128, "Exchanges");

struct Disk {
  std::uint32_t used;  // D, last: 1 = row files lie on this disk
  std::int32_t table;  // D: number of a table with a file there
  std::int32_t file;  // D: which of its files
  std::uint8_t unused12[4];
  std::int64_t queued;  // D: operations that no thread has begun
  std::int64_t under_way;  // D
  std::int64_t deepest;  // D: most that were under way together
  std::int64_t delayed;  // D: operations that waited for another one of their block
  std::int64_t rows_read;  // D: as the others below, since the disk worker began
  std::int64_t rows_written;  // D
  std::int64_t read_bytes;  // D
  std::int64_t written_bytes;  // D
  std::int64_t read_p50_us;  // D: of an operation
  std::int64_t read_p99_us;  // D
  std::int64_t write_p50_us;  // D
  std::int64_t write_p99_us;  // D
  std::uint8_t unused112[16];
};
static_assert(sizeof(Disk) == 128, "Disk");

struct ExchangeSpans {
  std::uint32_t version;  // S, last
  std::uint32_t magic;  // S
  std::int64_t capacity;  // S: spans that it holds
  std::int32_t pid;  // S: of the trainer
  std::int32_t rank;  // T: of this process, written before ranks
  std::int32_t ranks;  // T: 0 = the trainer does not have it yet
  std::uint8_t unused28[36];
  std::int64_t count;  // T: spans so far; span n lies at n % capacity
  std::uint8_t unused72[56];
};
static_assert(sizeof(ExchangeSpans) == 128, "ExchangeSpans");

struct ExchangeSpan {
  std::int64_t start_ns;  // T: of its begin, since 1970
  std::int64_t duration_ns;  // T
  std::int64_t sequence;  // T: number of the exchange, the same on all ranks
  std::int64_t ticket;  // T: number of its batch in the iterator, 0 = it has none
  std::int64_t bytes_sent;  // T: to other ranks
  std::int64_t bytes_received;  // T: from other ranks
  std::int64_t waited_us;  // T: of the duration, until the last rank began the exchange
  std::int32_t stream;  // T: of its batch
  std::int32_t kind;  // T: what this rank said: EXCHANGE_KINDS
  std::int32_t last;  // T: rank that began it last, -1 = not known
  std::uint8_t unused68[4];
};
static_assert(sizeof(ExchangeSpan) == 72, "ExchangeSpan");

struct Ring {
  std::uint32_t version;  // S, last
  std::uint32_t magic;  // S
  std::int32_t stream;  // S: number of the stream
  std::int32_t channel;  // S: TRAIN, EVAL or LOCAL
  std::int32_t frame_count;  // S: frames in use at most, 1 to MAX_FRAMES
  std::int32_t table_count;  // S
  std::int32_t look_ahead;  // S: frames touched beyond the one to plan
  std::int32_t plan_ahead;  // S: unclaimed plans at most
  std::int64_t arena_offset;  // S
  std::int64_t arena_bytes;  // S, then P where rings grow: bytes of the arena that have memory
  std::int64_t frames_offset;  // S
  std::int64_t tables_offset;  // S
  std::int64_t head;  // P: number of the oldest frame not given back
  std::int64_t arena_head;  // P: ever-growing byte position of that frame
  std::int32_t rank_size;  // S: ranks among which the keys of a LOCAL ring are dealt, else 1
  std::uint8_t unused84[44];
  std::int64_t tail;  // P: number of the next frame
  std::int64_t arena_tail;  // P: ever-growing byte position behind the newest frame
  std::uint8_t unused144[48];
  std::int64_t submitted;  // P: tickets taken
  std::int64_t dropped;  // P: parked tickets closed before they got a frame
  std::int64_t parked;  // P: tickets waiting for room
  std::int64_t ids;  // P: ids copied into frames
  std::uint8_t unused224[32];
  std::int64_t trained;  // T: tickets claimed by some table
  std::uint8_t unused264[56];
};
static_assert(sizeof(Ring) == 320, "Ring");

struct Frame {
  std::int64_t number;  // P: frames are numbered without gaps; position in the ring = number % MAX_FRAMES
  std::int64_t ticket;  // P
  std::int64_t offset;  // P: bytes from the start of the segment
  std::int64_t length;  // P: bytes
  std::uint32_t claim;  // K by CAS from 0: generation of the key worker at work; S clears it after the reap
  std::uint32_t closed;  // T: 1 = this ticket can no longer be trained
  std::uint32_t trained;  // T: 1 = some table claimed it
  std::uint8_t unused44[4];
  std::int64_t timestamp;  // P: of the batch, 0 = it has none
  std::uint8_t unused56[8];
};
static_assert(sizeof(Frame) == 64, "Frame");

struct RingTable {
  std::int64_t finished;  // T before DONE, W before count-only DONE: last ticket this table finished
  std::int64_t wanted;  // T: ticket a claim waits for, or 0
  std::int32_t table;  // S: table number
  std::int32_t worker;  // S: table worker that serves it
  std::uint8_t unused24[40];
  std::uint32_t words[64];  // P, K, W, T, see docs/protocol.md: word of each frame, by position
};
static_assert(sizeof(RingTable) == 320, "RingTable");

struct Table {
  std::uint32_t version;  // S, last
  std::uint32_t magic;  // S
  std::int32_t table;  // S: table number
  std::int32_t dim;  // S: floats of an embedding
  std::int64_t device_rows;  // S
  std::int64_t entry_capacity;  // S: entries at most
  std::int64_t entries_offset;  // S: ENTRY[entry_capacity]
  std::int64_t slots_offset;  // S: int32[device_rows], the entry in each slot
  std::int64_t home_capacity;  // S: home rows at most, 0 = the table lives on the device alone
  std::int64_t row_floats;  // S: floats of a home row: the embedding, then each optimizer slot
  std::int64_t rows;  // W: trained keys that have a row
  std::int64_t retired;  // W: last ticket assigned to truth
  std::int64_t hits;  // W: distinct keys found on the device, over trained batches
  std::int64_t misses;  // W: distinct keys that were not
  std::int64_t ids;  // W: ids of trained batches
  std::int64_t batches;  // W: trained batches of this table
  std::int64_t loads;  // W: of the misses, rows that came from home
  std::int64_t evicted;  // W: keys dropped by feature eviction
  std::int64_t cut_asked;  // T, last: id of the request
  std::int32_t cut_kind;  // T: CUT_*
  std::int32_t load_counting;  // T, CUT_LOAD: counting after it
  std::int64_t cut_argument;  // T, CUT_THRESHOLD: 0 = stop counting, else the threshold; CUT_EVICT: age; CUT_LOAD: entries there will be
  std::int64_t cut_rows;  // T, CUT_LOAD: how many of them, the first ones, have a row
  std::int64_t cut_filled;  // T, CUT_LOAD, last: id of the request: what was granted is written
  std::int64_t load_entries;  // T, just before: entries written, all of them; W before the grant: -1
  std::int64_t load_time;  // T, CUT_LOAD: time after it
  std::int64_t load_threshold;  // T, CUT_LOAD: access_threshold after it
  std::int64_t cut_committed;  // W: id of the request
  std::int64_t cut_applied;  // W, last: id of the request
  std::int64_t cut_granted;  // W, CUT_LOAD: id of the request: the table is empty, entries and rows are the trainer's
  std::int64_t cut_status;  // W, CUT_LOAD, before grant or refusal: PLAN_*; refused = applied, not committed
  std::uint8_t unused224[32];
  std::int64_t entries_used;  // W: entries from here on were never used; raised before their state is stored
  std::int64_t entries_ready;  // W: entries that have memory
  std::int64_t homes_ready;  // W: home rows that have memory
  std::int64_t time;  // W: greatest timestamp of a trained batch
  std::int64_t access_threshold;  // S, then W by a cut: occurrences before a key gets a row; -1 = no admission
  std::int64_t counting;  // S, then W by a cut: 1 = occurrences are counted
  std::int64_t faae_coefficient;  // S: how much an occurrence counts
  std::int64_t eviction_threshold;  // S: age at which a key is dropped by an eviction; -1 = never
  std::int64_t home_offset;  // S: float32[home_capacity, row_floats]
  std::int64_t log_offset;  // S: IMAGE[log_capacity]
  std::int64_t log_capacity;  // S: images at most
  std::int64_t disk_offset;  // S: of DISK_TABLE, 0 = no row of this table goes to disk
  std::uint8_t unused352[32];
  std::int64_t snapshot_asked;  // T, last: id of the snapshot
  std::int64_t snapshot_bound;  // T: entries below this number are in the snapshot
  std::int64_t snapshot_copied;  // T: entries below are copied; = snapshot_bound: it is over
  std::int64_t save_waits;  // T: steps that waited for room in a save's log of home rows
  std::int64_t load_keyed;  // T, CUT_LOAD: id of the request: every entry is written, the worker may index them
  std::uint8_t unused424[24];
  std::int64_t snapshot_logged;  // W; T stores 0 before it asks: images in the log
  std::int64_t snapshot_log_ready;  // W: images that have memory
  std::int64_t snapshot_waits;  // W: times it waited because the log was full
  std::uint8_t unused472[40];
};
static_assert(sizeof(Table) == 512, "Table");

struct Entry {
  std::int64_t key;  // W
  std::int64_t count;  // W: occurrences in trained batches
  std::int64_t timestamp;  // W: of the last trained batch that had it
  std::int64_t last;  // W: last ticket that used it
  std::int32_t slot;  // W: device slot or -1
  std::int32_t frequency;  // W: decayed use, see kernels/frequency.py
  std::uint16_t state;  // W, last: FREE, NAMED or TRAINED
  std::uint16_t generation;  // W: 0; with rows on disk, how often the row was written there
  std::int32_t home;  // W: home row, or -1 = none, or -2 - disk slot
};
static_assert(sizeof(Entry) == 48, "Entry");

struct Image {
  std::int64_t entry;  // W: its number
  Entry content;  // W: the entry as it was when the snapshot began
};
static_assert(sizeof(Image) == 56, "Image");

struct DiskTable {
  std::int64_t disk_slots;  // S: at most
  std::int64_t asks_room;  // S: numbers in the ring of requests, a power of two
  std::int64_t asks_offset;  // S: int32[asks_room], numbers of requests; from the start of the segment
  std::int64_t requests_offset;  // S: REQUEST[home_capacity]; the same
  std::int64_t reads_offset;  // S: REQUEST[DISK_READERS, DISK_READS], whose entries mean nothing; the same
  std::int64_t read_rows_offset;  // S: float32[DISK_READERS, DISK_READS, row_floats]; the same
  std::uint8_t unused48[16];
  std::int64_t epoch;  // W: raised when what readers may know has been left; from 1 on
  std::int64_t asked;  // W, last: numbers that are put into the ring
  std::int64_t disk_rows;  // W: rows on disk
  std::int64_t fetches;  // W: rows that were asked for
  std::int64_t spills;  // W: rows that were sent to disk
  std::int64_t waits;  // W: times a frame was next to be planned and its rows were not all at home
  std::int64_t waiting;  // W: 1 + number of the frame that is now, 0 = none is
  std::uint8_t unused120[8];
  std::int64_t taken;  // D: numbers that are taken out of the ring
  std::uint8_t unused136[56];
  std::int64_t readers[2];  // T: epoch in which each reader has begun, 0 = it reads nothing; S clears those of a process that was reaped
  std::int64_t reads_asked[2];  // T, last: how often each reader has asked for rows
  std::uint8_t unused224[32];
};
static_assert(sizeof(DiskTable) == 256, "DiskTable");

struct Request {
  std::int64_t key;  // W
  std::int32_t slot;  // W: disk slot
  std::int32_t entry;  // W: number of the entry
  std::uint32_t generation;  // W: READ: that of the entry; WRITE: one more
  std::int32_t kind;  // W: REQUEST_READ or REQUEST_WRITE
  std::int32_t error;  // D, before FAILED: an errno, or a Damage of tfops/src/disk/row_format.h
  std::uint32_t word;  // W: EMPTY to ASKED, DONE or FAILED to EMPTY; D: ASKED to TAKEN, to DONE or FAILED; last
};
static_assert(sizeof(Request) == 32, "Request");

struct Spec {
  std::int64_t count;  // P: ids of this feature
  std::int64_t rank;  // P
  std::int64_t shape[6];  // P
};
static_assert(sizeof(Spec) == 64, "Spec");

struct Part {
  std::int64_t id_count;  // P
  std::int64_t spec_count;  // P
  std::int64_t specs;  // P: SPEC[spec_count]; an offset from the start of the frame, as those below
  std::int64_t ids;  // P: int64[id_count]
  std::int64_t unique;  // K: int64[unique_count]
  std::int64_t restore;  // K: int32[id_count]
  std::int64_t occurrences;  // K: int32[unique_count]
  std::int64_t entries;  // W touch: int32[unique_count]
  std::int64_t slots;  // W plan: int32[unique_count], -1 = no row on the device; in an evaluation SLOT_* codes
  std::int64_t counts;  // W plan: int64[unique_count], absolute
  std::int64_t frequencies;  // W plan: int32[unique_count], absolute
  std::int64_t move_in;  // W plan: int32[fresh_count + load_count], indexes into unique
  std::int64_t out_slots;  // W plan: int32[out_count]
  std::int64_t out_entries;  // W plan: int32[out_count]
  std::int64_t homes;  // W plan: int32[unique_count], home row or -1
  std::int64_t out_homes;  // W plan: int32[out_count]
  std::int64_t unique_count;  // K
  std::int64_t held;  // W: entries stored; unique_count, or fewer when the table had no room
  std::int64_t base;  // W plan: last ticket this table finished when the plan's turn comes
  std::int64_t horizon;  // W plan: last ticket touched
  std::int64_t status;  // W plan: PLAN_*
  std::int64_t need;  // W plan: rows the batch needs in all, for the error text
  std::int64_t fresh_count;  // W plan: first in move_in, rows that get their initial value
  std::int64_t load_count;  // W plan: then rows that come from home
  std::int64_t out_count;  // W plan: rows that go home
  std::int64_t rows;  // W plan: absolute TABLE.rows after this ticket
  std::int64_t full;  // W plan: 1 = claimed plan, 0 = count-only record
  std::int64_t time;  // W plan: absolute TABLE.time after this ticket
  std::int64_t admitted;  // W plan: distinct keys that have a row in this batch
  std::int64_t weights;  // P: int32[id_count], how often each id counts, until DEDUPED; 0 = once each, else = counts
  std::uint8_t unused240[16];
};
static_assert(sizeof(Part) == 256, "Part");

// The arrays of a part in the order in which they lie in a frame.
struct PartArray {
  std::int64_t Part::*field;
  std::int64_t bytes_per_id;
};
constexpr PartArray kPartArrays[] = {
  {&Part::ids, 8},
  {&Part::unique, 8},
  {&Part::restore, 4},
  {&Part::occurrences, 4},
  {&Part::entries, 4},
  {&Part::slots, 4},
  {&Part::counts, 8},
  {&Part::frequencies, 4},
  {&Part::move_in, 4},
  {&Part::out_slots, 4},
  {&Part::out_entries, 4},
  {&Part::homes, 4},
  {&Part::out_homes, 4},
};

}  // namespace layout
}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LAYOUT_GEN_H_
