// Every byte offset of shared memory, the C++ twin of ascpipe/layout/structs.py, which says who writes what.
// tests/house/test_layout_parity.py compiles this file and compares each offset.
//
// Words that two processes share are read and written through core/atomics.h only.
#ifndef ASCPIPE_CORE_LAYOUT_H_
#define ASCPIPE_CORE_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {
namespace layout {

constexpr std::uint32_t kVersion = 5;
constexpr std::uint32_t kMagic = 0x41534350;
constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kPage = 4096;
constexpr int kMaxFrames = 64;
constexpr int kMaxKeyWorkers = 16;
constexpr int kMaxTableWorkers = 16;
constexpr int kMaxSpecRank = 6;

constexpr int kBellTrainer = 0;
constexpr int kBellPump = 1;
constexpr int kBellKeyWorkers = 2;
constexpr int kBellTableWorkers = kBellKeyWorkers + kMaxKeyWorkers;
constexpr int kBells = kBellTableWorkers + kMaxTableWorkers;

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

enum Channel : std::int32_t { kTrain = 0, kEval = 1 };

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
};

enum PlanStatus : std::int64_t {
  kPlanOk = 0,
  kPlanTableFull = 1,
  kPlanDeviceSmall = 2,
  kPlanHostFull = 3,
  kPlanNoMemory = 4,
};
enum EntryState : std::int32_t { kFree = 0, kNamed = 1, kTrained = 2 };

enum CutKind : std::int32_t { kCutReset = 1, kCutThreshold = 2, kCutEvict = 3, kCutLoad = 4 };

// What stands where a slot may.
constexpr std::int32_t kSlotNone = -1;
constexpr std::int32_t kSlotHome = -2;          // home row h is kSlotHome - h
constexpr std::int32_t kSlotFrozen = 1 << 30;   // added to a slot, or to a code: looked up, never updated

constexpr std::size_t kFailureTextBytes = 2048;

struct Bell {
  std::uint32_t futex;
  std::uint32_t waiting;
  std::int32_t waits_for;
  std::int32_t waits_table;
  std::int64_t waits_ticket;
  std::uint64_t sleeps;
  std::uint64_t late;
  std::int32_t pid;
  std::uint8_t unused[20];
};

struct Session {
  std::uint32_t version;
  std::uint32_t magic;
  std::int64_t run;
  std::uint32_t failed;
  std::uint32_t failure_bytes;
  std::int64_t rings_ample;
  std::int64_t rings_most;
  std::uint32_t is_private;
  std::uint8_t unused1[20];
  char failure_text[kFailureTextBytes];
  std::uint8_t unused2[4096 - 64 - kFailureTextBytes];
};
constexpr std::int64_t kSessionBellsOffset = 4096;
constexpr std::int64_t kSessionBytes = 8192;

struct Ring {
  std::uint32_t version;
  std::uint32_t magic;
  std::int32_t stream;
  std::int32_t channel;
  std::int32_t frame_count;
  std::int32_t table_count;
  std::int32_t look_ahead;
  std::int32_t plan_ahead;
  std::int64_t arena_offset;
  std::int64_t arena_bytes;
  std::int64_t frames_offset;
  std::int64_t tables_offset;
  std::int64_t head;
  std::int64_t arena_head;
  std::uint8_t unused1[48];
  std::int64_t tail;
  std::int64_t arena_tail;
  std::uint8_t unused2[48];
  std::int64_t submitted;
  std::int64_t dropped;
  std::int64_t parked;
  std::int64_t ids;
  std::uint8_t unused3[32];
  std::int64_t trained;
  std::uint8_t unused4[56];
};

struct Frame {
  std::int64_t number;
  std::int64_t ticket;
  std::int64_t offset;
  std::int64_t length;
  std::uint32_t claim;
  std::uint32_t closed;
  std::uint32_t trained;
  std::uint8_t unused1[4];
  std::int64_t timestamp;
  std::uint8_t unused2[8];
};

struct RingTable {
  std::int64_t finished;
  std::int64_t wanted;
  std::int32_t table;
  std::int32_t worker;
  std::uint8_t unused[40];
  std::uint32_t words[kMaxFrames];
};

struct Table {
  std::uint32_t version;
  std::uint32_t magic;
  std::int32_t table;
  std::int32_t dim;
  std::int64_t device_rows;
  std::int64_t entry_capacity;
  std::int64_t entries_offset;
  std::int64_t slots_offset;
  std::int64_t home_capacity;
  std::int64_t row_floats;
  std::int64_t rows;
  std::int64_t retired;
  std::int64_t hits;
  std::int64_t misses;
  std::int64_t ids;
  std::int64_t batches;
  std::int64_t loads;
  std::int64_t evicted;
  std::int64_t cut_asked;
  std::int32_t cut_kind;
  std::int32_t load_counting;
  std::int64_t cut_argument;
  std::int64_t cut_rows;
  std::int64_t cut_filled;
  std::int64_t load_entries;
  std::int64_t load_time;
  std::int64_t load_threshold;
  std::int64_t cut_committed;
  std::int64_t cut_applied;
  std::int64_t cut_granted;
  std::int64_t cut_status;
  std::uint8_t unused1[32];
  std::int64_t entries_used;
  std::int64_t entries_ready;
  std::int64_t homes_ready;
  std::int64_t time;
  std::int64_t access_threshold;
  std::int64_t counting;
  std::int64_t faae_coefficient;
  std::int64_t eviction_threshold;
  std::int64_t home_offset;
  std::int64_t log_offset;
  std::int64_t log_capacity;
  std::uint8_t unused2[40];
  std::int64_t snapshot_asked;
  std::int64_t snapshot_bound;
  std::int64_t snapshot_copied;
  std::int64_t save_waits;
  std::int64_t load_keyed;
  std::uint8_t unused3[24];
  std::int64_t snapshot_logged;
  std::int64_t snapshot_log_ready;
  std::int64_t snapshot_waits;
  std::uint8_t unused4[40];
};

struct Entry {
  std::int64_t key;
  std::int64_t count;
  std::int64_t timestamp;
  std::int64_t last;
  std::int32_t slot;
  std::int32_t state;
  std::int32_t frequency;
  std::int32_t home;
};

struct Image {
  std::int64_t entry;
  Entry content;
};

struct Spec {
  std::int64_t count;
  std::int64_t rank;
  std::int64_t shape[kMaxSpecRank];
};

struct Part {
  std::int64_t id_count;
  std::int64_t spec_count;
  std::int64_t specs;
  std::int64_t ids;
  std::int64_t unique;
  std::int64_t restore;
  std::int64_t occurrences;
  std::int64_t entries;
  std::int64_t slots;
  std::int64_t counts;
  std::int64_t frequencies;
  std::int64_t move_in;
  std::int64_t out_slots;
  std::int64_t out_entries;
  std::int64_t homes;
  std::int64_t out_homes;
  std::int64_t unique_count;
  std::int64_t held;
  std::int64_t base;
  std::int64_t horizon;
  std::int64_t status;
  std::int64_t need;
  std::int64_t fresh_count;
  std::int64_t load_count;
  std::int64_t out_count;
  std::int64_t rows;
  std::int64_t full;
  std::int64_t time;
  std::int64_t admitted;
  std::uint8_t unused[24];
};

static_assert(sizeof(Bell) == 64, "see ascpipe/layout/structs.py");
static_assert(sizeof(Session) == 4096, "see ascpipe/layout/structs.py");
static_assert(sizeof(Ring) == 320, "see ascpipe/layout/structs.py");
static_assert(sizeof(Frame) == 64, "see ascpipe/layout/structs.py");
static_assert(sizeof(RingTable) == 64 + 4 * kMaxFrames, "see ascpipe/layout/structs.py");
static_assert(sizeof(Table) == 512, "see ascpipe/layout/structs.py");
static_assert(sizeof(Entry) == 48, "see ascpipe/layout/structs.py");
static_assert(sizeof(Image) == 56, "see ascpipe/layout/structs.py");
static_assert(sizeof(Spec) == 64, "see ascpipe/layout/structs.py");
static_assert(sizeof(Part) == 256, "see ascpipe/layout/structs.py");

constexpr std::int64_t Align(std::int64_t size, std::int64_t unit = kCacheLine) {
  return (size + unit - 1) & ~(unit - 1);
}

// Lays out one part at `offset` of a frame (behind the Parts) and returns the offset behind it; the
// order and sizes are PART_ARRAYS of layout.py.
inline std::int64_t PlacePart(Part* part, std::int64_t id_count, std::int64_t spec_count, std::int64_t offset) {
  *part = Part();
  part->id_count = id_count;
  part->spec_count = spec_count;
  part->specs = offset;
  offset += spec_count * static_cast<std::int64_t>(sizeof(Spec));
  const struct {
    std::int64_t Part::*field;
    std::int64_t bytes;
  } arrays[] = {
      {&Part::ids, 8},     {&Part::unique, 8},  {&Part::restore, 4},     {&Part::occurrences, 4},
      {&Part::entries, 4}, {&Part::slots, 4},   {&Part::counts, 8},      {&Part::frequencies, 4},
      {&Part::move_in, 4}, {&Part::out_slots, 4}, {&Part::out_entries, 4}, {&Part::homes, 4},
      {&Part::out_homes, 4},
  };
  for (const auto& array : arrays) {
    part->*array.field = offset;
    offset += Align(array.bytes * id_count);
  }
  return offset;
}

}  // namespace layout
}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LAYOUT_H_
