// Updates of served rows for tests: the bytes of table files and of update files.
#ifndef ASCPIPE_TESTS_CPP_SERVED_UPDATES_H_
#define ASCPIPE_TESTS_CPP_SERVED_UPDATES_H_

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/crc32.h"
#include "core/update_watch.h"

namespace served {

using namespace ascpipe;
using Bytes = std::vector<std::uint8_t>;
using Changes = std::map<std::int64_t, float>;  // key -> all floats of its row; NaN: deleted

constexpr std::int64_t kDim = 3;

template <typename Value>
void Append(const Value* values, std::size_t count, Bytes* bytes) {
  const std::uint8_t* first = reinterpret_cast<const std::uint8_t*>(values);
  bytes->insert(bytes->end(), first, first + count * sizeof(Value));
}

inline void EndSection(Bytes* bytes) { bytes->resize((bytes->size() + 63) / 64 * 64); }

// Returns a table file.
inline Bytes TableBytes(const Changes& changes) {
  std::vector<TableFileEntry> entries;
  std::vector<float> rows;
  for (const auto& change : changes) {
    const bool deleted = change.second != change.second;
    entries.push_back({change.first, deleted ? -1 : static_cast<std::int64_t>(rows.size()) / kDim});
    if (!deleted) rows.insert(rows.end(), kDim, change.second);
  }
  TableFileHeader header = {};
  std::memcpy(header.magic, kTableFileMagic, sizeof(header.magic));
  header.version = kTableFileVersion;
  header.dim = kDim;
  header.key_count = static_cast<std::int64_t>(entries.size());
  header.deleted = header.key_count - static_cast<std::int64_t>(rows.size()) / kDim;
  while ((std::size_t{2} << header.bucket_bits) < entries.size()) ++header.bucket_bits;
  std::sort(entries.begin(), entries.end(), [](const TableFileEntry& one, const TableFileEntry& other) {
    return KeyHash(one.key) < KeyHash(other.key);
  });
  std::vector<std::int64_t> buckets((std::size_t{1} << header.bucket_bits) + 1, 0);
  for (const TableFileEntry& entry : entries) {
    ++buckets[(header.bucket_bits == 0 ? 0 : KeyHash(entry.key) >> (64 - header.bucket_bits)) + 1];
  }
  for (std::size_t bucket = 1; bucket < buckets.size(); ++bucket) buckets[bucket] += buckets[bucket - 1];
  Bytes bytes;
  Append(&header, 1, &bytes);
  Append(buckets.data(), buckets.size(), &bytes);
  EndSection(&bytes);
  Append(entries.data(), entries.size(), &bytes);
  EndSection(&bytes);
  Append(rows.data(), rows.size(), &bytes);
  const std::uint32_t sum = Crc32(bytes.data(), bytes.size()), seal = Crc32(&sum, sizeof(sum));
  Append(&sum, 1, &bytes);
  Append(&seal, 1, &bytes);
  return bytes;
}

// Returns the id of a checkpoint.
inline std::string Id(int checkpoint) { return std::string(kUpdateIdBytes, static_cast<char>('A' + checkpoint)); }

// Returns the information of an update that results in checkpoint `to`, whose step is 10 times its number. A delta is
// based on checkpoint `from`; -1: full.
inline UpdateInfo Info(std::int64_t sequence, int from, int to) {
  UpdateInfo info;
  info.sequence = sequence;
  info.is_full = from < 0;
  info.base_step = from < 0 ? -1 : 10 * from;
  info.step = 10 * to;
  if (from >= 0) info.base_id = Id(from);
  info.id = Id(to);
  return info;
}

// Returns an update file with tables "one" and "two".
inline Bytes UpdateBytes(const UpdateInfo& info, const Changes& one, const Changes& two) {
  UpdateFileHeader header = {};
  std::memcpy(header.magic, kUpdateFileMagic, sizeof(header.magic));
  header.version = kUpdateFileVersion;
  header.is_full = info.is_full ? 1 : 0;
  header.sequence = info.sequence;
  header.base_step = info.base_step;
  header.step = info.step;
  std::memcpy(header.base_id, info.base_id.data(), info.base_id.size());
  std::memcpy(header.id, info.id.data(), info.id.size());
  header.table_count = 2;
  UpdateFileTable tables[2] = {};
  Bytes body(sizeof(header) + sizeof(tables) + sizeof(std::uint32_t));
  for (int table = 0; table < 2; ++table) {
    const Bytes bytes = TableBytes(table == 0 ? one : two);
    EndSection(&body);
    std::strcpy(tables[table].name, table == 0 ? "one" : "two");
    tables[table].offset = static_cast<std::int64_t>(body.size());
    tables[table].bytes = static_cast<std::int64_t>(bytes.size());
    std::memcpy(&tables[table].seal, bytes.data() + bytes.size() - sizeof(std::uint32_t), sizeof(std::uint32_t));
    Append(bytes.data(), bytes.size(), &body);
  }
  Bytes head;
  Append(&header, 1, &head);
  Append(tables, 2, &head);
  const std::uint32_t sum = Crc32(head.data(), head.size());
  Append(&sum, 1, &head);
  std::copy(head.begin(), head.end(), body.begin());
  return body;
}

// A directory with updates that exists as long as the object.
class Directory {
 public:
  Directory() {
    if (mkdtemp(path_) == nullptr) std::abort();
  }
  ~Directory() {
    for (const std::string& name : names_) unlink((path() + "/" + name).c_str());
    rmdir(path_);
  }
  std::string path() const { return path_; }

  static std::string NameOf(const UpdateInfo& info) {
    char name[64];
    std::snprintf(name, sizeof(name), "update-%016lld.%s", static_cast<long long>(info.sequence),
                  info.is_full ? "full" : "delta");
    return name;
  }
  // Writes a file under a temporary name, and renames it.
  void Write(const std::string& name, const Bytes& bytes) {
    const std::string to = path() + "/" + name, temporary = path() + "/.new";
    std::ofstream(temporary, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (std::rename(temporary.c_str(), to.c_str()) != 0) std::abort();
    names_.push_back(name);
  }
  void Write(const UpdateInfo& info, const Changes& one, const Changes& two) {
    Write(NameOf(info), UpdateBytes(info, one, two));
  }
  void Remove(const UpdateInfo& info) { unlink((path() + "/" + NameOf(info)).c_str()); }

 private:
  char path_[32] = "/tmp/ascupdates-XXXXXX";
  std::vector<std::string> names_;
};

inline std::shared_ptr<const RowTable> Table(const Changes& changes, bool is_update) {
  const Bytes bytes = TableBytes(changes);
  char path[] = "/tmp/asctable-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  unlink(path);
  std::uint32_t seal;
  std::memcpy(&seal, bytes.data() + bytes.size() - sizeof(seal), sizeof(seal));
  std::unique_ptr<TableFile> file;
  const auto alone = [](std::int64_t total, std::int64_t, const Blocks::Work& work) {
    if (total > 0) work(0, total);
  };
  const TableFile::Part part = {0, static_cast<std::int64_t>(bytes.size()), seal, is_update};
  if (!TableFile::OpenPart(path, fd, part, alone, &file).ok()) std::abort();
  close(fd);
  return std::shared_ptr<const RowTable>(std::move(file));
}

// Returns the value of each key, or -1 for keys without a row.
template <typename Rows>
std::vector<float> Values(const Rows& rows, const std::vector<std::int64_t>& keys) {
  const float default_row[kDim] = {-1, -1, -1};
  std::vector<float> out(keys.size() * kDim), values;
  std::unique_ptr<bool[]> found(new bool[keys.size() + 1]);
  rows.LookUp(keys.data(), 0, static_cast<std::int64_t>(keys.size()), default_row, out.data(), found.get());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float value = out[i * kDim];
    const bool is_whole = out[i * kDim + 1] == value && out[i * kDim + 2] == value && found[i] == (value != -1);
    values.push_back(is_whole ? value : -2);
  }
  return values;
}

}  // namespace served

#endif  // ASCPIPE_TESTS_CPP_SERVED_UPDATES_H_
