#include "core/row_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/private_memory.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kSection = 64;    // alignment of sections
constexpr std::int64_t kBucketKeys = 4;  // maximum mean number of keys per bucket, as in table_file.py
constexpr int kTogether = 32;            // keys whose cache misses overlap
constexpr std::int64_t kEntry = sizeof(TableFileEntry), kFloat = sizeof(float), kBucket = sizeof(std::int64_t);

std::int64_t SectionEnd(std::int64_t bytes) { return (bytes + kSection - 1) / kSection * kSection; }

// Returns the number of bucket bits for a table of `key_count` keys.
std::uint32_t BucketBits(std::int64_t key_count) {
  std::uint32_t bits = 0;
  while ((kBucketKeys << bits) < key_count) ++bits;
  return bits;
}

// Table in the memory of this process.
class MemoryTable : public RowTable {
 public:
  // Allocates the memory of the table. The sizes in `header` must be valid.
  explicit MemoryTable(const TableFileHeader& header) : memory_(SectionsOf(header).end) {
    if (memory_.get() == nullptr) return;
    std::memcpy(memory_.get(), &header, sizeof(header));
    Set(memory_.get());
  }

  bool has_memory() const { return memory_.get() != nullptr; }
  std::int64_t* buckets() { return reinterpret_cast<std::int64_t*>(memory_.get() + sizeof(TableFileHeader)); }
  TableFileEntry* entries() { return const_cast<TableFileEntry*>(entries_); }
  float* rows() { return const_cast<float*>(rows_); }

  // Fills the buckets. Call FillBuckets after all entries are complete.
  void FillBuckets() {
    const std::int64_t count = key_count(), bucket_count = std::int64_t{1} << header().bucket_bits;
    std::int64_t entry = 0;
    for (std::int64_t bucket = 0; bucket <= bucket_count; ++bucket) {
      while (entry < count && BucketOf(KeyHash(entries_[entry].key)) < bucket) ++entry;
      buckets()[bucket] = entry;
    }
  }

 private:
  PrivateArray<std::uint8_t> memory_;
};

}  // namespace

RowTable::Sections RowTable::SectionsOf(const TableFileHeader& header) {
  Sections sections;
  const std::int64_t buckets = (std::int64_t{1} << header.bucket_bits) + 1;
  sections.entries = SectionEnd(static_cast<std::int64_t>(sizeof(header)) + buckets * kBucket);
  sections.rows = SectionEnd(sections.entries + header.key_count * kEntry);
  sections.end = sections.rows + (header.key_count - header.deleted) * header.dim * kFloat;
  return sections;
}

void RowTable::Set(const std::uint8_t* base) {
  base_ = base;
  const Sections sections = SectionsOf(header());
  buckets_ = reinterpret_cast<const std::int64_t*>(base + sizeof(TableFileHeader));
  entries_ = reinterpret_cast<const TableFileEntry*>(base + sections.entries);
  rows_ = reinterpret_cast<const float*>(base + sections.rows);
}

const TableFileEntry* RowTable::Find(std::int64_t key, std::int64_t bucket) const {
  const TableFileEntry* const end = FirstOf(bucket + 1);
  for (const TableFileEntry* entry = FirstOf(bucket); entry < end; ++entry) {
    if (entry->key == key) return entry;
  }
  return nullptr;
}

template <typename Key>
void RowTable::LookUp(const Stack& tables, const Key* keys, std::int64_t begin, std::int64_t end,
                      const float* default_row, float* out, bool* found) {
  const std::int64_t dim = tables.first[0]->dim();
  const std::size_t row_bytes = static_cast<std::size_t>(dim) * sizeof(float);
  int open[kTogether];  // keys that no table contained so far
  std::int64_t buckets[kTogether];
  const float* rows[kTogether];
  for (std::int64_t at = begin; at < end; at += kTogether) {
    const int n = static_cast<int>(std::min<std::int64_t>(kTogether, end - at));
    for (int i = 0; i < n; ++i) {
      open[i] = i;
      rows[i] = nullptr;
    }
    int left = n;
    for (std::size_t table = 0; table < tables.count && left > 0; ++table) {
      const RowTable& in = *tables.first[table];
      for (int j = 0; j < left; ++j) {
        buckets[j] = in.BucketOf(KeyHash(keys[at + open[j]]));
        __builtin_prefetch(in.buckets_ + buckets[j]);
      }
      for (int j = 0; j < left; ++j) __builtin_prefetch(in.FirstOf(buckets[j]));
      int missed = 0;
      for (int j = 0; j < left; ++j) {
        const TableFileEntry* const entry = in.Find(keys[at + open[j]], buckets[j]);
        if (entry == nullptr) {
          open[missed++] = open[j];
        } else if (entry->row >= 0) {
          rows[open[j]] = in.rows_ + entry->row * dim;
          __builtin_prefetch(rows[open[j]]);
        }
      }
      left = missed;
    }
    for (int i = 0; i < n; ++i) {
      if (found != nullptr) found[at + i] = rows[i] != nullptr;
      std::memcpy(out + (at + i) * dim, rows[i] == nullptr ? default_row : rows[i], row_bytes);
    }
  }
}

template void RowTable::LookUp(const Stack&, const std::int32_t*, std::int64_t, std::int64_t, const float*, float*,
                               bool*);
template void RowTable::LookUp(const Stack&, const std::int64_t*, std::int64_t, std::int64_t, const float*, float*,
                               bool*);

std::shared_ptr<const RowTable> RowTable::Merge(const RowTable& older, const RowTable& newer, const RowTable* below) {
  // Calls use(entry, table) for each entry of the merged table, in the order of the hashes.
  const auto each = [&](const auto& use) {
    const TableFileEntry *one = older.entries_, *other = newer.entries_;
    const TableFileEntry *const one_end = one + older.key_count(), *const other_end = other + newer.key_count();
    while (one < one_end || other < other_end) {
      const bool is_newer = one == one_end || (other < other_end && KeyHash(other->key) <= KeyHash(one->key));
      if (is_newer && one < one_end && one->key == other->key) ++one;
      const TableFileEntry& entry = is_newer ? *other++ : *one++;
      if (entry.row < 0 && below != nullptr && below->Find(entry.key) == nullptr) continue;
      use(entry, is_newer ? newer : older);
    }
  };
  TableFileHeader header = older.header();
  header.key_count = 0;
  header.deleted = 0;
  each([&header](const TableFileEntry& entry, const RowTable&) {
    ++header.key_count;
    if (entry.row < 0) ++header.deleted;
  });
  header.bucket_bits = BucketBits(header.key_count);
  const std::shared_ptr<MemoryTable> merged = std::make_shared<MemoryTable>(header);
  if (!merged->has_memory()) return nullptr;
  const std::int64_t dim = header.dim;
  TableFileEntry* to = merged->entries();
  std::int64_t row = 0;
  each([&](const TableFileEntry& entry, const RowTable& table) {
    *to++ = {entry.key, entry.row < 0 ? -1 : row};
    if (entry.row < 0) return;
    std::memcpy(merged->rows() + row * dim, table.rows_ + entry.row * dim, static_cast<std::size_t>(dim) * kFloat);
    ++row;
  });
  merged->FillBuckets();
  return merged;
}

}  // namespace ascpipe
