#include "core/disk_reads.h"

#include "core/atomics.h"

namespace ascpipe {

namespace {

template <typename T>
T* At(layout::Table* header, std::int64_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(header) + offset);
}

layout::DiskTable* DiskTableOf(layout::Table* header) { return At<layout::DiskTable>(header, header->disk_offset); }

bool IsUnderWay(std::uint32_t word) { return word == layout::kRequestAsked || word == layout::kRequestTaken; }

}  // namespace

DiskReads::DiskReads(layout::Table* header, int reader)
    : table_(DiskTableOf(header)),
      reader_(reader),
      requests_(At<layout::Request>(header, table_->reads_offset) + std::int64_t{reader} * layout::kDiskReads),
      rows_(At<float>(header, table_->read_rows_offset) +
            std::int64_t{reader} * layout::kDiskReads * header->row_floats),
      row_floats_(header->row_floats) {}

bool DiskReads::IsIdle() const {
  for (int i = 0; i < layout::kDiskReads; ++i) {
    if (IsUnderWay(LoadAcquire(&requests_[i].word))) return false;  // SYNC request-done: load
  }
  return true;
}

void DiskReads::Ask(const DiskPlace* places, std::int64_t count, layout::RequestKind kind) {
  count_ = count;
  for (std::int64_t i = 0; i < count; ++i) {
    layout::Request* const request = requests_ + i;
    request->key = places[i].key;
    request->slot = places[i].slot;
    request->entry = -1;
    request->generation = places[i].generation;
    request->kind = kind;
    request->error = 0;
    Exchange(&request->word, static_cast<std::uint32_t>(layout::kRequestAsked));  // SYNC request: store
  }
  Exchange(&table_->reads_asked[reader_], table_->reads_asked[reader_] + 1);  // SYNC reads-asked: store
}

std::int64_t DiskReads::FirstFailed(std::int32_t* error) const {
  for (std::int64_t i = 0; i < count_; ++i) {
    if (LoadAcquire(&requests_[i].word) != layout::kRequestDone) {
      *error = requests_[i].error;
      return i;
    }
  }
  return -1;
}

}  // namespace ascpipe
