#include "core/entry_snapshot.h"

#include <algorithm>
#include <cstring>

#include "core/atomics.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kBlockEntries = 1 << 14;

template <typename T>
const T* At(const layout::Table* header, std::int64_t offset) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(header) + offset);
}

}  // namespace

std::int64_t EntriesUsed(const layout::Table& opened, const layout::Table& header) {
  return std::max<std::int64_t>(0, std::min(opened.entry_capacity, LoadAcquire(&header.entries_used)));
}

void BeginSnapshot(const layout::Table& opened, layout::Table* header) {
  StoreRelease(&header->snapshot_bound, EntriesUsed(opened, *header));
  StoreRelease(&header->snapshot_copied, std::int64_t{0});
  StoreRelease(&header->snapshot_logged, std::int64_t{0});
  Exchange(&header->snapshot_asked, header->snapshot_asked + 1);  // SYNC snapshot-asked: store
}

void EndSnapshot(layout::Table* header) {
  Exchange(&header->snapshot_copied, header->snapshot_bound);  // SYNC snapshot-copied: store
}

CoreStatus CopyEntries(const std::string& table, const layout::Table& opened, layout::Table* header, std::int64_t bound,
                       layout::Entry* entries, const std::function<void()>& passed) {
  const layout::Entry* const from = At<layout::Entry>(header, opened.entries_offset);
  for (std::int64_t begin = 0; begin < bound; begin += kBlockEntries) {
    const std::int64_t end = std::min(bound, begin + kBlockEntries);
    std::memcpy(entries + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(layout::Entry));
    Exchange(&header->snapshot_copied, end);  // SYNC snapshot-copied: store
    passed();
  }
  // After the last block, the log has an image of each entry that changed before the entry was copied.
  FullFence();
  const std::int64_t logged = LoadAcquire(&header->snapshot_logged);  // SYNC images: load
  const std::int64_t ready = std::min(LoadAcquire(&header->snapshot_log_ready), opened.log_capacity);
  if (logged < 0 || logged > ready) {
    return Error(kE301, "table '", table, "': ", logged, " images in a log with memory for ", ready,
                 " while it was saved. The record is damaged and nothing was saved; restart the program");
  }
  const layout::Image* const images = At<layout::Image>(header, opened.log_offset);
  for (std::int64_t i = 0; i < logged; ++i) {
    const std::int64_t entry = LoadAcquire(&images[i].entry);
    if (entry < 0 || entry >= bound) {
      return Error(kE301, "table '", table, "': image ", i, " is one of entry ", entry, " of ", bound,
                   ". The record is damaged and nothing was saved; restart the program");
    }
    entries[entry] = images[i].content;
  }
  return CoreStatus();
}

}  // namespace ascpipe
