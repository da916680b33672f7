#include "bridge/save.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "bridge/disk_moves.h"
#include "core/atomics.h"
#include "core/bell.h"
#include "core/blocks.h"
#include "core/entry_snapshot.h"
#include "core/error_codes.gen.h"
#include "core/fork.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kCopiedAtOnce = 1 << 18;  // floats per block, which one thread copies
constexpr unsigned kThreads = 4;                 // more threads are not faster: memory bandwidth is the limit

struct Copy {
  const float* from;
  float* to;
  std::int64_t floats;
};

// Copies arrays on several threads, because cores are idle while training is paused.
void CopyAll(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    const Blocks::Work work = [&copy](std::int64_t begin, std::int64_t end) {
      std::memcpy(copy.to + begin, copy.from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    };
    Blocks blocks(copy.floats, kCopiedAtOnce, &work);
    std::vector<std::thread> others;
    const std::int64_t most = (copy.floats - 1) / kCopiedAtOnce;  // maximum number of threads besides this thread
    for (std::int64_t i = 1; i < std::min(kThreads, std::thread::hardware_concurrency()) && i <= most; ++i) {
      others.emplace_back([&blocks] { blocks.Take(); });
    }
    blocks.Take();
    for (std::thread& other : others) other.join();
  }
}

// Location of an entry's row.
struct EntryPlace {
  std::uint32_t generation;
  std::int32_t home;
};

// Returns the location of an entry's row. The location is consistent, because the worker changes the generation and the
// home row in one store.
EntryPlace PlaceOf(const layout::Entry* entry) {
  static_assert(offsetof(layout::Entry, generation) == offsetof(layout::Entry, state) + 2 &&
                    offsetof(layout::Entry, home) == offsetof(layout::Entry, state) + 4,
                "state, generation and home are one word");
  const std::uint64_t word = LoadAcquire(reinterpret_cast<const std::uint64_t*>(&entry->state));
  return {static_cast<std::uint32_t>(word >> 16 & 0xffff), static_cast<std::int32_t>(word >> 32)};
}

}  // namespace

BackgroundSave::BackgroundSave(std::shared_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {
  pipeline_->waiter().BePatient(true);
}

CoreStatus BackgroundSave::Begin(const std::shared_ptr<Pipeline>& pipeline, const std::vector<Table*>& tables,
                                 std::int64_t log_bytes, std::shared_ptr<BackgroundSave>* save) {
  std::shared_ptr<BackgroundSave> begun(new BackgroundSave(pipeline));
  // The memory of the log is divided among tables in proportion to their number of home rows.
  double all = 0;
  for (const Table* table : tables) all += static_cast<double>(table->home().ready * table->home().row_floats);
  std::map<int, std::shared_ptr<RowLog>> logs;
  for (Table* table : tables) {
    const HomeRows home = table->home();
    if (home.ready == 0) continue;
    const double share = static_cast<double>(home.ready * home.row_floats) / all;
    const std::int64_t numbers = table->is_on_disk() ? EntriesUsed(table->opened(), *table->header()) : home.ready;
    std::unique_ptr<RowLog> log;
    const CoreStatus status = RowLog::Make(table->name(), home, numbers,
                                           static_cast<std::int64_t>(share * static_cast<double>(log_bytes)), &log);
    if (!status.ok()) return status;
    logs[table->number()] = std::move(log);
  }
  const CoreStatus status = begun->CopyDevice(tables);
  if (!status.ok()) return status;
  begun->logs_ = std::move(logs);
  for (Table* table : tables) {
    begun->tables_[table->number()] = table;
    const auto log = begun->logs_.find(table->number());
    if (log != begun->logs_.end()) table->KeepRows(log->second);
    BeginSnapshot(table->opened(), table->header());
  }
  *save = std::move(begun);
  return CoreStatus();
}

BackgroundSave::~BackgroundSave() {
  if (InForkedChild()) return;
  for (const auto& numbered : tables_) {
    numbered.second->KeepRows(nullptr);
    EndSnapshot(numbered.second->header());
    Wake(*numbered.second);
  }
  pipeline_->waiter().BePatient(false);
  pipeline_->waiter().Wake();
}

CoreStatus BackgroundSave::CopyDevice(const std::vector<Table*>& tables) {
  std::vector<Copy> copies;
  for (Table* table : tables) {
    for (int index = 0;; ++index) {
      const StateRows state = table->State(index);
      if (state.data == nullptr) break;
      float* const copy = table->CopyMemory(index, state.width);
      const std::int64_t floats = table->device().row_count() * state.width;
      if (copy == nullptr) {
        return Error(Code::kResourceExhausted, "table '", table->name(),
                     "': there is no memory to save it in the "
                     "background: ",
                     4 * floats,
                     " bytes for a copy of rows on the device. Nothing was saved and "
                     "nothing changed. Save in the foreground");
      }
      copies.push_back({state.data, copy, floats});
      device_[table->number()].push_back(StateRows{copy, state.width, state.width, 0.0f});
    }
  }
  CopyAll(copies);
  return CoreStatus();
}

CoreStatus BackgroundSave::Device(int table, int index, StateRows* copy) const {
  const auto numbered = device_.find(table);
  if (numbered == device_.end()) return Error(Code::kInvalidArgument, "table ", table, " is not in this save");
  *copy = StateRows();
  if (index < 0 || static_cast<std::size_t>(index) >= numbered->second.size()) return CoreStatus();
  *copy = numbered->second[static_cast<std::size_t>(index)];
  return CoreStatus();
}

CoreStatus BackgroundSave::ReadEntries(int table, layout::Entry* entries, std::int64_t count) {
  Table* found;
  const CoreStatus status = Find(table, &found);
  if (!status.ok()) return status;
  const std::int64_t bound = found->header()->snapshot_bound;
  if (count != bound || count < 0 || count > found->opened().entry_capacity) {
    return Error(Code::kInvalidArgument, "table '", found->name(), "': ", count, " entries are to be read, there are ",
                 bound);
  }
  return CopyEntries(found->name(), found->opened(), found->header(), count, entries, [this, found] { Wake(*found); });
}

CoreStatus BackgroundSave::WantRows(int table, const std::int32_t* numbers, std::int64_t count) {
  RowLog* log;
  const CoreStatus status = FindLog(table, numbers, count, &log);
  if (status.ok() && log != nullptr) log->WantOnly(numbers, count);
  return status;
}

CoreStatus BackgroundSave::ReadRows(int table, const std::int32_t* numbers, std::int64_t count, float* out) {
  RowLog* log;
  CoreStatus status = FindLog(table, numbers, count, &log);
  if (!status.ok() || log == nullptr) return status;
  Table* const found = tables_.at(table);
  if (!found->is_on_disk()) {
    log->Read(numbers, count, out);
    return status;
  }
  const std::int64_t floats = found->sizes().row_floats;
  for (std::int64_t begin = 0; status.ok() && begin < count; begin += layout::kDiskReads) {
    status = ReadMovingRows(found, numbers + begin, std::min<std::int64_t>(count - begin, layout::kDiskReads), log,
                            out + begin * floats);
  }
  return status;
}

// Reads rows of a table with rows on disk. Each entry is read again, because a worker may have moved the row since the
// save began. No entry is removed during a save. Locations are valid while an epoch is announced. Each epoch covers
// only a few rows, because freed locations cannot be reused while the epoch is announced.
CoreStatus BackgroundSave::ReadMovingRows(Table* table, const std::int32_t* numbers, std::int64_t count, RowLog* log,
                                          float* out) {
  const layout::Entry* const entries = table->entries();
  const HomeRows home = table->home();
  std::vector<DiskPlace> places;
  std::vector<std::int64_t> reads;  // index of the row that belongs to each place
  const std::int64_t epoch = table->epochs(kSaveReader).Begin();
  CoreStatus status;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!log->IsToRead(numbers[i])) continue;
    const EntryPlace place = PlaceOf(entries + numbers[i]);
    if (place.home <= layout::kHomeDisk) {
      places.push_back({entries[numbers[i]].key, layout::kHomeDisk - place.home, place.generation});
      reads.push_back(i);
    } else if (place.home >= 0 && place.home < home.ready) {
      std::memcpy(out + i * home.row_floats, home.data + place.home * home.row_floats,
                  static_cast<std::size_t>(home.row_floats) * sizeof(float));
    } else {
      status = Error(kE301, "table '", table->name(), "': entry ", numbers[i], " has home row ", place.home, " of ",
                     home.ready,
                     " while it is saved. The record is damaged and nothing was saved; restart "
                     "the program");
    }
  }
  std::vector<float> rows(places.size() * static_cast<std::size_t>(home.row_floats));
  if (status.ok()) {
    status = MoveDiskRows(pipeline_.get(), table, this, layout::kRequestRead, places.data(),
                          static_cast<std::int64_t>(places.size()), rows.data());
  }
  table->epochs(kSaveReader).End(epoch);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    std::memcpy(out + reads[i] * home.row_floats, rows.data() + i * static_cast<std::size_t>(home.row_floats),
                static_cast<std::size_t>(home.row_floats) * sizeof(float));
  }
  for (std::int64_t i = 0; i < count; ++i) log->Settle(numbers[i], out + i * home.row_floats);
  return status;
}

CoreStatus BackgroundSave::Find(int table, Table** found) const {
  const auto numbered = tables_.find(table);
  if (numbered == tables_.end()) return Error(Code::kInvalidArgument, "table ", table, " is not in this save");
  *found = numbered->second;
  return CoreStatus();
}

CoreStatus BackgroundSave::FindLog(int table, const std::int32_t* numbers, std::int64_t count, RowLog** log) const {
  Table* found;
  const CoreStatus status = Find(table, &found);
  if (!status.ok()) return status;
  const auto numbered = logs_.find(table);
  const std::int64_t rows = numbered == logs_.end() ? 0 : numbered->second->numbers();
  for (std::int64_t i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= rows) {
      return Error(kE301, "table '", found->name(), "': an entry has home row ", numbers[i], " of ", rows,
                   ". The record is damaged and nothing was saved; restart the program");
    }
  }
  *log = numbered == logs_.end() ? nullptr : numbered->second.get();  // without a log, there are no home rows
  return CoreStatus();
}

void BackgroundSave::Wake(const Table& table) const {
  layout::Bell* const bell = pipeline_->TableWorkerBell(table);
  if (bell != nullptr) Ring(bell);
}

}  // namespace ascpipe
