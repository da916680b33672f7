#include "bridge/hold.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "bridge/cut.h"
#include "bridge/disk_moves.h"
#include "bridge/step_end.h"
#include "bridge/thread_wait.h"
#include "core/atomics.h"
#include "core/bell.h"
#include "core/claim.h"
#include "core/error_codes.gen.h"
#include "core/fork.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

// Waits for the lease, and then until all tables are consistent (ReadersMayRead).
class TakeWait : public ThreadWait {
 public:
  TakeWait(Pipeline* pipeline, Lease::Step step, bool alone) : pipeline_(*pipeline), step_(step), alone_(alone) {
    Says(nullptr, layout::kWaitLease);
  }

  bool Poll(CoreStatus*) override {
    Lease& lease = pipeline_.lease();
    if (!(alone_ ? lease.TryExclusive(step_) : lease.TryShare(step_))) return false;
    while (next_ < pipeline_.table_count()) {
      int index = -1;
      const Table* const of = pipeline_.table(next_);
      const Stream* const stream = pipeline_.TrainingStream(next_, &index);
      Says(of, layout::kWaitCut);  // waits for the cut of a cancelled step
      if (LoadAcquire(&of->header()->cut_applied) < LoadAcquire(&of->header()->cut_asked)) return false;
      Says(of, layout::kWaitRead);
      if (stream != nullptr && !ReadersMayRead(stream->ring(), index)) return false;
      ++next_;
    }
    return true;
  }

 private:
  void Says(const Table* of, layout::WaitsFor reason) {
    waits_for = reason;
    table = of == nullptr ? -1 : of->number();
    table_name = of == nullptr ? "of a save or restore" : of->name();
  }

  Pipeline& pipeline_;
  const Lease::Step step_;
  const bool alone_;
  int next_ = 0;
};

// Waits until the table worker has granted or applied a load.
class LoadWait : public ThreadWait {
 public:
  enum Until { kGranted, kApplied };

  LoadWait(const Table& of, Until until, std::int64_t request)
      : header_(of.header()), until_(until), request_(request) {
    during_hold = true;
    waits_for = layout::kWaitCut;
    table = of.number();
    table_name = of.name();
  }

  bool Poll(CoreStatus*) override {
    if (LoadAcquire(&header_->cut_applied) >= request_) return true;              // SYNC cut-applied: load
    return until_ == kGranted && LoadAcquire(&header_->cut_granted) >= request_;  // SYNC cut-granted: load
  }

 private:
  const layout::Table* const header_;
  const Until until_;
  const std::int64_t request_;
};

// Waits for the cut of a cancelled step, and for the end of a save that needs the keys of the table.
class IdleWait : public ThreadWait {
 public:
  explicit IdleWait(Table* of) : of_(of), request_(LoadAcquire(&of->header()->cut_asked)) {
    table = of->number();
    table_name = of->name();
  }

  bool Poll(CoreStatus*) override {
    during_hold = !of_->IsBeingSaved();  // a save may take long, so this wait must not time out
    waits_for = during_hold ? layout::kWaitCut : layout::kWaitSave;
    if (!during_hold) return false;
    return LoadAcquire(&of_->header()->cut_applied) >= request_;  // SYNC cut-applied: load
  }

 private:
  Table* const of_;
  const std::int64_t request_;
};

CoreStatus Refused(const Table& table, std::int64_t entries, std::int64_t rows) {
  const layout::Table& header = *table.header();
  if (header.cut_status == layout::kPlanNoMemory) {
    return Error(kE321, "table '", table.name(), "': there is not enough memory for ", entries, " keys and ", rows,
                 " rows. The table is as it was. Give the machine (or the container) more memory");
  }
  std::int64_t most = table.sizes().device_rows;
  const char* size = "device_vocabulary_size";
  const char* beside = "";
  if (table.is_on_disk()) {
    most = table.most_disk_rows();
    size = "ssd_vocabulary_size";
    beside = "host_vocabulary_size and ";
  } else if (table.sizes().home_rows > 0) {
    most = table.sizes().home_rows;
    size = "host_vocabulary_size";
  }
  return Error(kE320, "table '", table.name(), "': ", entries, " keys, ", rows,
               " of them with a row, do not fit: the table has ", most, " rows (", beside, size,
               "). The table is as it was. Raise ", size);
}

// Returns an error unless the trainer owns the entries and rows of the table.
CoreStatus IsBeingLoaded(const Table& table) {
  const layout::Table& header = *table.header();
  const std::int64_t asked = LoadAcquire(&header.cut_asked);
  if (LoadAcquire(&header.cut_granted) == asked && LoadAcquire(&header.cut_applied) < asked) return CoreStatus();
  return Error(Code::kFailedPrecondition, "table '", table.name(), "' is not being loaded");
}

}  // namespace

Hold::Hold(std::shared_ptr<Pipeline> pipeline, bool alone)
    : pipeline_(std::move(pipeline)), id_(NextStep()), alone_(alone) {}

CoreStatus Hold::Take(std::shared_ptr<Pipeline> pipeline, bool alone, std::unique_ptr<Hold>* hold) {
  std::unique_ptr<Hold> taken(new Hold(std::move(pipeline), alone));
  Pipeline* const of = &taken->pipeline();
  const CoreStatus status = ThreadWait::Sleep(of->waiter(), std::make_shared<TakeWait>(of, taken->id_, alone));
  if (!status.ok()) return status;
  taken->is_taken_ = true;
  of->waiter().BePatient(true);
  *hold = std::move(taken);
  return status;
}

Hold::~Hold() {
  if (InForkedChild()) return;
  pipeline_->lease().Release(id_);
  if (is_taken_) pipeline_->waiter().BePatient(false);
  pipeline_->waiter().Wake();
}

CoreStatus Hold::BeginLoad(Table* table, std::int64_t entries, std::int64_t rows) {
  if (!alone_ || entries < rows || rows < 0) {
    return Error(Code::kInvalidArgument, "table '", table->name(), "': a load of ", entries, " keys, ", rows,
                 " of them with a row, needs a hold that is taken alone and not more rows than keys");
  }
  layout::Table* const header = table->header();
  layout::Bell* const bell = pipeline_->TableWorkerBell(*table);
  if (bell == nullptr) {
    return Error(Code::kFailedPrecondition, "table '", table->name(), "' is in no stream, so no worker could load it");
  }
  CoreStatus status = ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<IdleWait>(table));
  if (!status.ok()) return status;
  const std::int64_t asked_before = LoadAcquire(&header->cut_asked);
  header->cut_kind = layout::kCutLoad;
  header->cut_argument = entries;
  header->cut_rows = rows;
  Exchange(&header->cut_asked, asked_before + 1);  // SYNC cut-asked: store
  Ring(bell);
  status =
      ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<LoadWait>(*table, LoadWait::kGranted, asked_before + 1));
  if (!status.ok()) return status;
  return LoadAcquire(&header->cut_applied) > asked_before ? Refused(*table, entries, rows) : CoreStatus();
}

CoreStatus Hold::Cut(Table* table, layout::CutKind kind, std::int64_t argument) {
  if (!alone_ || argument < 0 || kind < layout::kCutReset || kind > layout::kCutEvict) {
    return Error(Code::kInvalidArgument, "table '", table->name(), "': a change of kind ", static_cast<int>(kind),
                 " to ", argument, " needs a hold that is taken alone, a known kind, and 0 or more");
  }
  int index = -1;
  const Stream* const stream = pipeline_->TrainingStream(table->number(), &index);
  CoreStatus status = ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<IdleWait>(table));
  if (!status.ok() || stream == nullptr || CutIsNeedless(*table, *stream, index, kind)) return status;
  layout::Table* const header = table->header();
  const std::int64_t asked = LoadAcquire(&header->cut_asked) + 1;
  header->cut_kind = kind;
  header->cut_argument = argument;
  Exchange(&header->cut_asked, asked);  // SYNC cut-asked: store
  Ring(pipeline_->TableWorkerBell(*stream, index));
  return ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<LoadWait>(*table, LoadWait::kApplied, asked));
}

CoreStatus Hold::Freeze(Table* table, bool frozen) {
  if (!alone_) {
    return Error(Code::kInvalidArgument, "table '", table->name(),
                 "' can be frozen only by a hold that is taken alone");
  }
  const CoreStatus status = ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<IdleWait>(table));
  if (status.ok()) table->Freeze(frozen);
  return status;
}

CoreStatus Hold::WriteEntries(Table* table, std::int64_t first, const LoadedKeys& keys, bool rows) {
  CoreStatus status = IsBeingLoaded(*table);
  if (!status.ok()) return status;
  const std::int64_t asked = std::min(table->header()->cut_argument, table->opened().entry_capacity);
  if (first < 0 || keys.count < 0 || keys.count > asked - first) {
    return Error(Code::kInvalidArgument, "table '", table->name(), "': entries ", first, " to ", first + keys.count,
                 " are not among the ", asked, " of this load");
  }
  layout::Entry* const entries = table->entries() + first;
  const std::int64_t homes = table->sizes().home_rows;
  const bool at_home = homes > 0;
  for (std::int64_t i = 0; i < keys.count; ++i) {
    const std::int64_t row = first + i;
    const std::int64_t home = row < homes ? row : layout::kHomeDisk - (row - homes);
    const std::uint16_t generation = entries[i].generation;  // the generation is never reset
    entries[i] = {keys.keys[i],
                  keys.counts[i],
                  keys.timestamps[i],
                  0,
                  rows && !at_home ? static_cast<std::int32_t>(row) : -1,
                  0,
                  layout::kTrained,
                  generation,
                  rows && at_home ? static_cast<std::int32_t>(home) : -1};
  }
  return status;
}

std::int64_t Hold::BeginReading(Table* table) { return table->epochs(kSaveReader).Begin(); }

void Hold::EndReading(Table* table, std::int64_t epoch) { table->epochs(kSaveReader).End(epoch); }

CoreStatus Hold::MoveRows(Table* table, layout::RequestKind kind, const DiskPlace* places, std::int64_t count,
                          float* rows) {
  return MoveDiskRows(pipeline_.get(), table, this, kind, places, count, rows);
}

CoreStatus Hold::EntriesWritten(Table* table) {
  const CoreStatus status = IsBeingLoaded(*table);
  if (!status.ok()) return status;
  layout::Table* const header = table->header();
  Exchange(&header->load_keyed, LoadAcquire(&header->cut_asked));  // SYNC load-keyed: store
  Ring(pipeline_->TableWorkerBell(*table));
  return status;
}

CoreStatus Hold::EndLoad(Table* table, const LoadedTable& loaded) {
  const CoreStatus status = IsBeingLoaded(*table);
  if (!status.ok()) return status;
  layout::Table* const header = table->header();
  const std::int64_t asked = LoadAcquire(&header->cut_asked);
  header->load_entries = loaded.entries;
  header->load_time = loaded.time;
  header->load_threshold = loaded.threshold;
  header->load_counting = loaded.counting;
  Exchange(&header->cut_filled, asked);  // SYNC cut-filled: store
  Ring(pipeline_->TableWorkerBell(*table));
  return ThreadWait::Sleep(pipeline_->waiter(), std::make_shared<LoadWait>(*table, LoadWait::kApplied, asked));
}

}  // namespace ascpipe
