// Update file: all rows, or only the changed rows, of all tables of a checkpoint. Servers read update files.
#ifndef ASCPIPE_CORE_UPDATE_FILE_H_
#define ASCPIPE_CORE_UPDATE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "core/table_file.h"

namespace ascpipe {

constexpr std::size_t kUpdateIdBytes = 32;

// Header of the file. All numbers are little-endian. The header is followed by UpdateFileTable[table_count], the CRC-32
// of all preceding bytes, and the tables. Each table is a table file whose offset is a multiple of 64 bytes. The bytes
// between the tables are zeros, and the file ends after the last table.
struct UpdateFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t is_full;
  std::int64_t sequence;
  std::int64_t base_step;
  std::int64_t step;
  std::uint8_t base_id[kUpdateIdBytes];
  std::uint8_t id[kUpdateIdBytes];
  std::int64_t table_count;
  std::uint8_t zeros[16];
};
static_assert(sizeof(UpdateFileHeader) == 128, "see ascpipe/checkpoint/update_file.py");

struct UpdateFileTable {
  char name[128];  // padded with zeros
  std::int64_t offset;
  std::int64_t bytes;
  std::uint32_t seal;
  std::uint32_t zero;
  std::int64_t access_threshold;  // only for the writer of the next update
};
static_assert(sizeof(UpdateFileTable) == 160, "see ascpipe/checkpoint/update_file.py");

constexpr char kUpdateFileMagic[9] = "ASCUPDAT";
constexpr std::uint32_t kUpdateFileVersion = 1;

// Identifies an update. `id` and `base_id` are digests of checkpoint manifests.
struct UpdateInfo {
  std::int64_t sequence = 0;  // increases with each update of a directory
  bool is_full = false;       // all rows of the tables instead of changes
  std::int64_t base_step = -1;
  std::int64_t step = -1;
  std::string base_id;  // checkpoint to which the changes apply; empty for a full update
  std::string id;       // checkpoint whose rows the update results in
};

// Name of an update file: "update-<16 digits of the sequence>.delta" or ".full".
struct UpdateName {
  std::int64_t sequence;
  bool is_full;
};
// Returns false if `name` is not the name of an update file.
bool ParseUpdateName(const std::string& name, UpdateName* parsed);

// An open update file with a verified header.
class UpdateFile {
 public:
  // Opens a file and verifies its header, its size, and that the header matches the name. Returns E341 if the file is
  // damaged or cannot be read.
  static CoreStatus Open(const std::string& directory, const std::string& name, std::unique_ptr<UpdateFile>* file);
  ~UpdateFile();
  UpdateFile(const UpdateFile&) = delete;
  UpdateFile& operator=(const UpdateFile&) = delete;

  const UpdateInfo& info() const { return info_; }
  const std::string& path() const { return path_; }

  // Verifies and returns a table with rows of `dim` floats. Returns E341 if the table is missing or damaged.
  CoreStatus Load(const std::string& table, std::int64_t dim, const TableFile::Share& share,
                  std::shared_ptr<const RowTable>* rows) const;

 private:
  UpdateFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  CoreStatus ReadHeader(const UpdateName& name);
  CoreStatus CheckPlaces(std::int64_t begin, std::int64_t bytes) const;

  template <typename... Parts>
  CoreStatus Damaged(const Parts&... parts) const;

  const std::string path_;
  const int fd_;
  UpdateInfo info_;
  std::vector<UpdateFileTable> tables_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_UPDATE_FILE_H_
