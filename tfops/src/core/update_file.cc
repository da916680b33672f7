#include "core/update_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/crc32.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kSection = 64;
constexpr std::int64_t kMaxTables = 4096;
constexpr std::size_t kDigits = 16;
constexpr std::int64_t kHeader = sizeof(UpdateFileHeader), kTable = sizeof(UpdateFileTable);
constexpr std::int64_t kSum = sizeof(std::uint32_t);

std::int64_t SectionEnd(std::int64_t bytes) { return (bytes + kSection - 1) / kSection * kSection; }

std::string IdOf(const std::uint8_t* bytes) {
  return std::string(reinterpret_cast<const char*>(bytes), kUpdateIdBytes);
}

}  // namespace

bool ParseUpdateName(const std::string& name, UpdateName* parsed) {
  const std::string prefix = "update-", full = ".full", delta = ".delta";
  const std::size_t end = prefix.size() + kDigits;
  if (name.size() <= end || name.compare(0, prefix.size(), prefix) != 0) return false;
  parsed->sequence = 0;
  for (std::size_t at = prefix.size(); at < end; ++at) {
    if (name[at] < '0' || name[at] > '9') return false;
    parsed->sequence = 10 * parsed->sequence + (name[at] - '0');
  }
  parsed->is_full = name.substr(end) == full;
  return parsed->is_full || name.substr(end) == delta;
}

template <typename... Parts>
CoreStatus UpdateFile::Damaged(const Parts&... parts) const {
  return Error(kE341, "Update ", path_, " was refused: ", parts...,
               ". The last good version is served. Copy the file again, or write a full update with "
               "asc.export_delta(..., keep=0)");
}

CoreStatus UpdateFile::Open(const std::string& directory, const std::string& name, std::unique_ptr<UpdateFile>* file) {
  const std::string path = directory + "/" + name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  std::unique_ptr<UpdateFile> opened(new UpdateFile(path, fd));
  if (fd < 0) return opened->Damaged("it cannot be opened: ", std::strerror(errno));
  UpdateName parsed;
  if (!ParseUpdateName(name, &parsed)) return opened->Damaged("its name is not the name of an update");
  const CoreStatus status = opened->ReadHeader(parsed);
  if (status.ok()) *file = std::move(opened);
  return status;
}

UpdateFile::~UpdateFile() {
  if (fd_ >= 0) close(fd_);
}

CoreStatus UpdateFile::ReadHeader(const UpdateName& name) {
  struct stat status;
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return Damaged("it is not a regular file");
  UpdateFileHeader header;
  if (pread(fd_, &header, sizeof(header), 0) != kHeader) return Damaged("it has no complete header");
  if (std::memcmp(header.magic, kUpdateFileMagic, sizeof(header.magic)) != 0) {
    return Damaged("it does not begin with ", kUpdateFileMagic);
  }
  if (header.version != kUpdateFileVersion) {
    return Damaged("it has version ", header.version, ", this library reads version ", kUpdateFileVersion);
  }
  if (header.table_count < 0 || header.table_count > kMaxTables)
    return Damaged("it has ", header.table_count, " tables");
  tables_.resize(static_cast<std::size_t>(header.table_count));
  const std::int64_t table_bytes = header.table_count * kTable;
  std::uint32_t wanted;
  if (pread(fd_, tables_.data(), static_cast<std::size_t>(table_bytes), kHeader) != table_bytes ||
      pread(fd_, &wanted, sizeof(wanted), kHeader + table_bytes) != kSum) {
    return Damaged("it has no complete header");
  }
  const std::uint32_t head_sum = Crc32(&header, sizeof(header));
  if (Crc32(tables_.data(), static_cast<std::size_t>(table_bytes), head_sum) != wanted) {
    return Damaged("the checksum of its header does not match");
  }
  if (header.sequence != name.sequence || (header.is_full != 0) != name.is_full) {
    return Damaged("it was written with another name (sequence ", header.sequence, ")");
  }
  info_.sequence = header.sequence;
  info_.is_full = header.is_full != 0;
  info_.base_step = header.base_step;
  info_.step = header.step;
  if (!info_.is_full) info_.base_id = IdOf(header.base_id);
  info_.id = IdOf(header.id);
  return CheckPlaces(kHeader + table_bytes + kSum, status.st_size);
}

// Checks that the tables follow each other up to the end of the file, and that the bytes between tables are zeros.
CoreStatus UpdateFile::CheckPlaces(std::int64_t begin, std::int64_t bytes) const {
  std::int64_t end = begin;
  for (const UpdateFileTable& table : tables_) {
    const std::int64_t offset = SectionEnd(end);
    std::uint8_t pad[kSection] = {};
    if (table.offset != offset || table.bytes < 0 || table.bytes > bytes - offset) {
      return Damaged("it has ", bytes, " bytes, which is not enough for its tables");
    }
    if (pread(fd_, pad, static_cast<std::size_t>(offset - end), end) != offset - end ||
        std::any_of(pad, pad + kSection, [](std::uint8_t byte) { return byte != 0; })) {
      return Damaged("bytes ", end, " to ", offset, " are not zeros");
    }
    end = offset + table.bytes;
  }
  if (end != bytes) return Damaged("it has ", bytes, " bytes instead of ", end);
  return CoreStatus();
}

CoreStatus UpdateFile::Load(const std::string& table, std::int64_t dim, const TableFile::Share& share,
                            std::shared_ptr<const RowTable>* rows) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(), [&table](const UpdateFileTable& one) {
    return table == std::string(one.name, strnlen(one.name, sizeof(one.name)));
  });
  if (found == tables_.end()) return Damaged("it does not contain table '", table, "'");
  std::unique_ptr<TableFile> file;
  const CoreStatus status =
      TableFile::OpenPart(path_, fd_, {found->offset, found->bytes, found->seal, !info_.is_full}, share, &file);
  if (!status.ok()) return Damaged("table '", table, "': ", status.text());
  if (file->dim() != dim) {
    return Damaged("table '", table, "' has rows of ", file->dim(), " floats, the served model has ", dim);
  }
  *rows = std::move(file);
  return CoreStatus();
}

}  // namespace ascpipe
