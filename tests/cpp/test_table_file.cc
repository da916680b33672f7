// Table files.  Every key is found, and any damage of a file results only in an error.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/crc32.h"
#include "core/table_file.h"

using namespace ascpipe;

namespace {

using Bytes = std::vector<std::uint8_t>;

// A file on the disk that exists as long as the object.
class OnDisk {
 public:
  explicit OnDisk(const Bytes& bytes) {
    const int fd = mkstemp(path_);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
  ~OnDisk() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/asctable-XXXXXX";
};

template <typename Value>
void Append(const Value* values, std::size_t count, Bytes* bytes) {
  const std::uint8_t* first = reinterpret_cast<const std::uint8_t*>(values);
  bytes->insert(bytes->end(), first, first + count * sizeof(Value));
}

void EndSection(Bytes* bytes) { bytes->resize((bytes->size() + 63) / 64 * 64); }

float ValueOf(std::int64_t key, std::int64_t column) { return static_cast<float>(key % 1000) + 0.5f * column; }

struct Made {
  Bytes bytes;
  std::size_t buckets_at, entries_at, rows_at, body;
};

// Appends the checksums and the seal to a body.
void Seal(Made* made) {
  made->bytes.resize(made->body);
  std::vector<std::uint32_t> sums;
  for (std::size_t at = 0; at < made->body; at += kTableFilePiece) {
    sums.push_back(Crc32(made->bytes.data() + at, std::min<std::size_t>(kTableFilePiece, made->body - at)));
  }
  Append(sums.data(), sums.size(), &made->bytes);
  const std::uint32_t seal = Crc32(sums.data(), sums.size() * sizeof(sums[0]));
  Append(&seal, 1, &made->bytes);
}

Made Make(std::vector<std::int64_t> keys, std::int64_t dim, std::uint32_t bucket_bits) {
  Made made;
  TableFileHeader header = {};
  std::memcpy(header.magic, kTableFileMagic, sizeof(header.magic));
  header.version = kTableFileVersion;
  header.bucket_bits = bucket_bits;
  header.dim = dim;
  header.key_count = static_cast<std::int64_t>(keys.size());
  Append(&header, 1, &made.bytes);
  std::vector<TableFileEntry> entries;
  for (std::size_t row = 0; row < keys.size(); ++row) entries.push_back({keys[row], static_cast<std::int64_t>(row)});
  std::sort(entries.begin(), entries.end(), [](const TableFileEntry& one, const TableFileEntry& other) {
    return KeyHash(one.key) < KeyHash(other.key);
  });
  std::vector<std::int64_t> buckets((std::size_t{1} << bucket_bits) + 1, 0);
  for (const TableFileEntry& entry : entries) {
    ++buckets[(bucket_bits == 0 ? 0 : KeyHash(entry.key) >> (64 - bucket_bits)) + 1];
  }
  for (std::size_t bucket = 1; bucket < buckets.size(); ++bucket) buckets[bucket] += buckets[bucket - 1];
  made.buckets_at = made.bytes.size();
  Append(buckets.data(), buckets.size(), &made.bytes);
  EndSection(&made.bytes);
  made.entries_at = made.bytes.size();
  Append(entries.data(), entries.size(), &made.bytes);
  EndSection(&made.bytes);
  made.rows_at = made.bytes.size();
  for (const std::int64_t key : keys) {
    for (std::int64_t column = 0; column < dim; ++column) {
      const float value = ValueOf(key, column);
      Append(&value, 1, &made.bytes);
    }
  }
  made.body = made.bytes.size();
  Seal(&made);
  return made;
}

std::uint32_t SealOf(const Bytes& bytes) {
  std::uint32_t seal = 0;
  if (bytes.size() >= sizeof(seal)) std::memcpy(&seal, bytes.data() + bytes.size() - sizeof(seal), sizeof(seal));
  return seal;
}

void Alone(std::int64_t total, std::int64_t, const Blocks::Work& work) {
  if (total > 0) work(0, total);
}

CoreStatus Open(const Bytes& bytes, std::unique_ptr<TableFile>* file) {
  const OnDisk disk(bytes);  // a mapped file needs no name
  return TableFile::Open(disk.path(), SealOf(bytes), Alone, file);
}

std::string Refusal(const Bytes& bytes, Code code) {
  std::unique_ptr<TableFile> file;
  const CoreStatus status = Open(bytes, &file);
  CHECK(file == nullptr);
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(code));
  return status.text();
}

bool Says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::int64_t> ManyKeys(std::size_t count) {
  std::vector<std::int64_t> keys = {0, -1, std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()};
  std::uint64_t state = 7;
  while (keys.size() < count) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    keys.push_back(static_cast<std::int64_t>(state));
  }
  keys.resize(count);
  return keys;
}

template <typename Key>
std::vector<float> LookUp(const TableFile& file, const std::vector<Key>& keys) {
  const std::vector<float> default_row(file.dim(), -9.0f);
  std::vector<float> out(keys.size() * file.dim());
  file.LookUp(keys.data(), 0, keys.size(), default_row.data(), out.data());
  return out;
}

}  // namespace

TEST(TheSumIsThatOfZlib) {
  CHECK_EQ(Crc32("123456789", 9), 0xCBF43926u);
  CHECK_EQ(Crc32("56789", 5, Crc32("1234", 4)), 0xCBF43926u);
  CHECK_EQ(Crc32("", 0), 0u);
}

TEST(EveryKeyOfATableIsFoundAndNoOtherOne) {
  for (const std::size_t count : {0, 1, 2, 65, 5000}) {
    for (const std::uint32_t bits : {0, 3, 11}) {
      const std::vector<std::int64_t> keys = ManyKeys(count);
      std::unique_ptr<TableFile> file;
      CHECK(Open(Make(keys, 3, bits).bytes, &file).ok());
      CHECK_EQ(file->row_count(), static_cast<std::int64_t>(count));
      std::vector<std::int64_t> asked = keys;
      for (std::int64_t key = 1; key <= 100; ++key) asked.push_back(key * 3);
      const std::vector<float> rows = LookUp(*file, asked);
      const std::unique_ptr<bool[]> found(new bool[asked.size()]);
      std::vector<float> same(rows.size());
      file->LookUp(asked.data(), 0, asked.size(), std::vector<float>(3, -9.0f).data(), same.data(), found.get());
      CHECK(same == rows);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        CHECK_EQ(found[i], i < count);
        for (std::int64_t column = 0; column < 3; ++column) {
          CHECK_EQ(rows[i * 3 + column], i < count ? ValueOf(asked[i], column) : -9.0f);
        }
      }
    }
  }
}

TEST(KeysOf32BitsAreThoseOf64) {
  std::unique_ptr<TableFile> file;
  CHECK(Open(Make({-1, 5, std::numeric_limits<std::int32_t>::min()}, 1, 2).bytes, &file).ok());
  const std::vector<float> rows = LookUp<std::int32_t>(*file, {5, -1, 6, std::numeric_limits<std::int32_t>::min()});
  CHECK_EQ(rows[0], ValueOf(5, 0));
  CHECK_EQ(rows[1], ValueOf(-1, 0));
  CHECK_EQ(rows[2], -9.0f);
  CHECK_EQ(rows[3], ValueOf(std::numeric_limits<std::int32_t>::min(), 0));
}

TEST(ThreadsMayShareATable) {
  const std::vector<std::int64_t> keys = ManyKeys(20000);
  std::unique_ptr<TableFile> file;
  CHECK(Open(Make(keys, 8, 12).bytes, &file).ok());
  const std::vector<float> wanted = LookUp(*file, keys);
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (auto& rows : found) threads.emplace_back([&] { rows = LookUp(*file, keys); });
  for (auto& thread : threads) thread.join();
  for (const auto& rows : found) CHECK(rows == wanted);
}

TEST(AFileThatEndsAnywhereIsAnError) {
  const Made made = Make(ManyKeys(50), 3, 4);
  for (std::size_t length = 0; length < made.bytes.size(); length += length < 100 ? 1 : 37) {
    const std::string text = Refusal(Bytes(made.bytes.begin(), made.bytes.begin() + length), Code::kDataLoss);
    CHECK(Says(text, "/tmp/asctable-"));
    CHECK(Says(text, "is damaged"));
  }
  Bytes longer = made.bytes;
  longer.push_back(0);
  CHECK(Says(Refusal(longer, Code::kDataLoss), " bytes instead of "));
}

TEST(AByteThatChangedAnywhereIsAnError) {
  const Made made = Make(ManyKeys(50), 3, 4);
  const std::uint32_t seal = SealOf(made.bytes);
  for (std::size_t at = 0; at < made.bytes.size(); ++at) {
    Bytes changed = made.bytes;
    changed[at] ^= 0x10;
    const OnDisk disk(changed);
    std::unique_ptr<TableFile> file;
    const CoreStatus status = TableFile::Open(disk.path(), seal, Alone, &file);
    CHECK(!status.ok());
    CHECK(file == nullptr);
  }
}

TEST(DamageInTheMidstOfAFileIsToldByItsBytes) {
  Made made = Make(ManyKeys(3000), 200, 8);  // more than two pieces
  CHECK(made.body > 2 * kTableFilePiece);
  made.bytes[kTableFilePiece + 5] ^= 1;
  CHECK(Says(Refusal(made.bytes, Code::kDataLoss), "bytes 1048576 to 2097152"));
}

TEST(NumbersTooLargeForTheFileAreAnErrorWhateverTheSumsSay) {
  const Made made = Make(ManyKeys(50), 3, 4);
  const auto with = [&made](void (*change)(TableFileHeader*)) {
    Made changed = made;
    change(reinterpret_cast<TableFileHeader*>(changed.bytes.data()));
    Seal(&changed);
    return Refusal(changed.bytes, Code::kDataLoss);
  };
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(Says(with([](TableFileHeader* header) { header->key_count = kMost; }), "its header says"));
  CHECK(Says(with([](TableFileHeader* header) { header->key_count = -1; }), "its header says"));
  CHECK(Says(with([](TableFileHeader* header) { header->dim = kMost; }), "its header says"));
  CHECK(Says(with([](TableFileHeader* header) { header->dim = 0; }), "its header says"));
  CHECK(Says(with([](TableFileHeader* header) { header->bucket_bits = 64; }), "its header says"));
  CHECK(Says(with([](TableFileHeader* header) { header->bucket_bits = 40; }), " bytes instead of "));
  CHECK(Says(with([](TableFileHeader* header) { header->key_count = 49; }), " bytes instead of "));
}

TEST(AKeyThatATableHasTwiceIsAnErrorWhateverTheSumsSay) {
  for (const std::uint32_t bits : {0, 3}) {
    CHECK(Says(Refusal(Make({5, 9, 5}, 2, bits).bytes, Code::kDataLoss), "of key 5 names row"));
  }
}

TEST(EntriesThatLeadOutOfTheFileAreAnErrorWhateverTheSumsSay) {
  const Made made = Make(ManyKeys(50), 3, 4);
  const auto with = [&made](std::size_t at, std::int64_t value) {
    Made changed = made;
    std::memcpy(changed.bytes.data() + at, &value, sizeof(value));
    Seal(&changed);
    return Refusal(changed.bytes, Code::kDataLoss);
  };
  CHECK(Says(with(made.entries_at + 5 * sizeof(TableFileEntry) + 8, 50), "entry 5 "));
  CHECK(Says(with(made.entries_at + 5 * sizeof(TableFileEntry) + 8, -1), "entry 5 "));
  CHECK(Says(with(made.entries_at + 5 * sizeof(TableFileEntry), 123456), "entry "));
  CHECK(Says(with(made.buckets_at, 1), "bucket 0 "));
  CHECK(Says(with(made.buckets_at + 16 * 8, 1 << 30), "bucket 16 "));
  CHECK(Says(with(made.buckets_at + 7 * 8, std::int64_t{1} << 60), "bucket 7 "));
}

TEST(WhatIsNoTableFileIsRefused) {
  const Made made = Make({1, 2}, 1, 0);
  Bytes other = made.bytes;
  other[0] = 'X';
  CHECK(Says(Refusal(other, Code::kDataLoss), "does not begin with ASCTABLE"));
  Bytes newer = made.bytes;
  newer[8] = 2;
  CHECK(Says(Refusal(newer, Code::kFailedPrecondition), "has version 2, this library reads version 1"));
  std::unique_ptr<TableFile> file;
  CHECK(Says(TableFile::Open("/tmp/asctable-none", 0, Alone, &file).text(), "No such file"));
  CHECK(Says(TableFile::Open("/tmp", 0, Alone, &file).text(), "cannot be read"));
  const OnDisk disk(made.bytes);
  const CoreStatus status = TableFile::Open(disk.path(), SealOf(made.bytes) + 1, Alone, &file);
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kFailedPrecondition));
  CHECK(Says(status.text(), "belongs to another export"));
  CHECK(file == nullptr);
}
