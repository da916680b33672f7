#include "bridge/save.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "core/atomics.h"
#include "core/bell.h"
#include "core/blocks.h"
#include "core/entry_snapshot.h"
#include "core/error_codes.gen.h"
#include "core/fork.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kCopiedAtOnce = 1 << 18;  // floats
constexpr unsigned kThreads = 4;                 // more threads do not copy faster: memory is the limit

struct Copy {
  const float* from;
  float* to;
  std::int64_t floats;
};

// Training is paused, so cores are idle.
void CopyAll(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    const Blocks::Work work = [&copy](std::int64_t begin, std::int64_t end) {
      std::memcpy(copy.to + begin, copy.from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    };
    Blocks blocks(copy.floats, kCopiedAtOnce, &work);
    std::vector<std::thread> others;
    const std::int64_t most = (copy.floats - 1) / kCopiedAtOnce;  // besides this thread
    for (std::int64_t i = 1; i < std::min(kThreads, std::thread::hardware_concurrency()) && i <= most; ++i) {
      others.emplace_back([&blocks] { blocks.Take(); });
    }
    blocks.Take();
    for (std::thread& other : others) other.join();
  }
}

}  // namespace

BackgroundSave::BackgroundSave(std::shared_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {
  pipeline_->waiter().BePatient(true);
}

CoreStatus BackgroundSave::Begin(const std::shared_ptr<Pipeline>& pipeline, const std::vector<Table*>& tables,
                                 std::int64_t log_bytes, std::shared_ptr<BackgroundSave>* save) {
  std::shared_ptr<BackgroundSave> begun(new BackgroundSave(pipeline));
  // Each table gets the share of the log that it has of the home rows.
  double all = 0;
  for (const Table* table : tables) all += static_cast<double>(table->home().ready * table->home().row_floats);
  std::map<int, std::shared_ptr<RowLog>> logs;
  for (Table* table : tables) {
    const HomeRows home = table->home();
    if (home.ready == 0) continue;
    const double share = static_cast<double>(home.ready * home.row_floats) / all;
    std::unique_ptr<RowLog> log;
    const CoreStatus status =
        RowLog::Make(table->name(), home, static_cast<std::int64_t>(share * static_cast<double>(log_bytes)), &log);
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
    BeginSnapshot(table->header());
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
        return Error(Code::kResourceExhausted, "table '", table->name(), "': there is no memory to save it in the "
                     "background: ", 4 * floats, " bytes for a copy of rows on the device. Nothing was saved and "
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
  if (count != found->header()->snapshot_bound) {
    return Error(Code::kInvalidArgument, "table '", found->name(), "': ", count, " entries are to be read, there are ",
                 found->header()->snapshot_bound);
  }
  return CopyEntries(found->name(), found->header(), entries, [this, found] { Wake(*found); });
}

CoreStatus BackgroundSave::WantRows(int table, const std::int32_t* homes, std::int64_t count) {
  RowLog* log;
  const CoreStatus status = FindLog(table, homes, count, &log);
  if (status.ok() && log != nullptr) log->WantOnly(homes, count);
  return status;
}

CoreStatus BackgroundSave::ReadRows(int table, const std::int32_t* homes, std::int64_t count, float* out) {
  RowLog* log;
  const CoreStatus status = FindLog(table, homes, count, &log);
  if (status.ok() && log != nullptr) log->Read(homes, count, out);
  return status;
}

CoreStatus BackgroundSave::Find(int table, Table** found) const {
  const auto numbered = tables_.find(table);
  if (numbered == tables_.end()) return Error(Code::kInvalidArgument, "table ", table, " is not in this save");
  *found = numbered->second;
  return CoreStatus();
}

CoreStatus BackgroundSave::FindLog(int table, const std::int32_t* homes, std::int64_t count, RowLog** log) const {
  Table* found;
  const CoreStatus status = Find(table, &found);
  if (!status.ok()) return status;
  const auto numbered = logs_.find(table);
  const std::int64_t rows = numbered == logs_.end() ? 0 : numbered->second->rows();
  for (std::int64_t i = 0; i < count; ++i) {
    if (homes[i] < 0 || homes[i] >= rows) {
      return Error(kE301, "table '", found->name(), "': an entry has home row ", homes[i], " of ",
                   rows, ". The record is damaged and nothing was saved; restart the program");
    }
  }
  *log = numbered == logs_.end() ? nullptr : numbered->second.get();  // no log: then there are no home rows either
  return CoreStatus();
}

void BackgroundSave::Wake(const Table& table) const {
  layout::Bell* const bell = pipeline_->TableWorkerBell(table);
  if (bell != nullptr) Ring(bell);
}

}  // namespace ascpipe
