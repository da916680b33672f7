// Immutable keys and rows of one table, in the layout of a table file (core/table_file.h).
#ifndef ASCPIPE_CORE_ROW_TABLE_H_
#define ASCPIPE_CORE_ROW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ascpipe {

// Header of a table file. All numbers are little-endian. The header is followed by the sections `buckets`, `entries`
// and `rows`, each aligned to 64 bytes. `buckets` is int64[2^bucket_bits + 1] and contains the index of the first entry
// of each bucket, followed by key_count. `entries` is TableFileEntry[key_count], in ascending order of KeyHash(key).
// The upper bits of KeyHash(key) are the number of the key's bucket. `rows` is float[key_count - deleted, dim].
// core/table_file.h describes the checksums that follow the sections in a file.
struct TableFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bucket_bits;
  std::int64_t dim;
  std::int64_t key_count;
  std::int64_t deleted;  // number of entries of deleted keys; 0 except in updates
  std::uint8_t zeros[24];
};
static_assert(sizeof(TableFileHeader) == 64, "see ascpipe/checkpoint/table_file.py");

struct TableFileEntry {
  std::int64_t key;
  std::int64_t row;  // -1: an update deletes the key
};

// Bijective 64-bit hash of a key.
inline std::uint64_t KeyHash(std::int64_t key) {
  std::uint64_t hash = static_cast<std::uint64_t>(key);
  hash ^= hash >> 33;
  hash *= 0xFF51AFD7ED558CCDull;
  hash ^= hash >> 33;
  hash *= 0xC4CEB9FE1A85EC53ull;
  return hash ^ (hash >> 33);
}

// Keys and rows. A derived class owns the memory. The class is thread-safe.
class RowTable {
 public:
  virtual ~RowTable() = default;
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  std::int64_t dim() const { return header().dim; }
  std::int64_t key_count() const { return header().key_count; }
  std::int64_t row_count() const { return header().key_count - header().deleted; }

  // Tables in the order in which LookUp searches them.
  struct Stack {
    const RowTable* const* first;
    std::size_t count;
  };

  // Returns the entry of a key, or null if the table does not contain the key.
  const TableFileEntry* Find(std::int64_t key) const { return Find(key, BucketOf(KeyHash(key))); }

  // Looks up keys in tables whose rows all have the same length. The first table that contains a key determines the row
  // of the key.
  //
  // For each i in [begin, end), copies the row of keys[i] to out[i]. Copies `default_row` to out[i] if no table
  // contains the key, or if the first table that contains the key marks the key as deleted. Key is int32 or int64,
  // `default_row` is float[dim], and `out` is float[end, dim]. `found` is bool[end] or null. If `found` is not null,
  // sets found[i] to whether keys[i] has a row.
  template <typename Key>
  static void LookUp(const Stack& tables, const Key* keys, std::int64_t begin, std::int64_t end,
                     const float* default_row, float* out, bool* found);

  // Returns a table with the entries of `older` and `newer`. An entry of `newer` replaces the entry of the same key.
  // `below` is the table that lookups search after the merged table, or null. If `below` is not null, the merged table
  // omits deleted keys that `below` does not contain. Returns null if there is not enough memory.
  static std::shared_ptr<const RowTable> Merge(const RowTable& older, const RowTable& newer, const RowTable* below);

 protected:
  // Positions of the sections in bytes, after the header.
  struct Sections {
    std::int64_t entries;
    std::int64_t rows;
    std::int64_t end;
  };

  RowTable() = default;

  // Returns the positions of the sections for a header with valid sizes.
  static Sections SectionsOf(const TableFileHeader& header);
  // Sets the memory of the table. The header at `base` must be valid.
  void Set(const std::uint8_t* base);

  const TableFileHeader& header() const { return *reinterpret_cast<const TableFileHeader*>(base_); }
  const TableFileEntry* FirstOf(std::int64_t bucket) const { return entries_ + buckets_[bucket]; }
  std::int64_t BucketOf(std::uint64_t hash) const {
    const std::uint32_t bits = header().bucket_bits;
    return bits == 0 ? 0 : static_cast<std::int64_t>(hash >> (64 - bits));
  }
  const TableFileEntry* Find(std::int64_t key, std::int64_t bucket) const;

  const std::uint8_t* base_ = nullptr;
  const std::int64_t* buckets_ = nullptr;
  const TableFileEntry* entries_ = nullptr;
  const float* rows_ = nullptr;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_TABLE_H_
