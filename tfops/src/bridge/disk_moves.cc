#include "bridge/disk_moves.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "bridge/thread_wait.h"
#include "core/bell.h"
#include "core/disk_errors.h"

namespace ascpipe {

namespace {

// Waits until the disk worker has no unfinished request.
class DiskWait : public ThreadWait {
 public:
  DiskWait(Table* of, const void* owner) : of_(of), owner_(owner) {
    during_hold = true;
    waits_for = layout::kWaitDisk;
    table = of->number();
    table_name = of->name();
  }

  bool Poll(CoreStatus*) override {
    return of_->TakeDiskReads(kSaveReader, owner_) && of_->disk_reads(kSaveReader).IsIdle();
  }

 private:
  Table* const of_;
  const void* const owner_;
};

}  // namespace

CoreStatus MoveDiskRows(Pipeline* pipeline, Table* table, const void* owner, layout::RequestKind kind,
                        const DiskPlace* places, std::int64_t count, float* rows) {
  const std::int64_t floats = table->sizes().row_floats;
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  DiskReads& reads = table->disk_reads(kSaveReader);
  const auto wait = [&] { return ThreadWait::Sleep(pipeline->waiter(), std::make_shared<DiskWait>(table, owner)); };
  CoreStatus status = wait();
  for (std::int64_t begin = 0; status.ok() && begin < count; begin += reads.count()) {
    const std::int64_t n = std::min<std::int64_t>(count - begin, layout::kDiskReads);
    if (kind == layout::kRequestWrite) {
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(reads.row(i), rows + (begin + i) * floats, bytes);
    }
    reads.Ask(places + begin, n, kind);
    Ring(pipeline->DiskWorkerBell());
    status = wait();
    if (!status.ok()) break;
    std::int32_t error;
    const std::int64_t failed = reads.FirstFailed(&error);
    if (failed >= 0) {
      status = CannotMove(table->name(), table->directories(), places[begin + failed], kind, error);
    }
    if (kind == layout::kRequestRead) {
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(rows + (begin + i) * floats, reads.row(i), bytes);
    }
  }
  table->LeaveDiskReads(kSaveReader, owner);
  return status;
}

}  // namespace ascpipe
