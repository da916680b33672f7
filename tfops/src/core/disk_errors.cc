#include "core/disk_errors.h"

#include <cstring>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

// Descriptions of damaged rows, indexed by -Damage (disk/row_format.h).
const char* const kDamages[] = {"", "nothing that was ever written", "torn bytes", "a row of another key",
                                "an older row"};

}  // namespace

CoreStatus CannotMove(const std::string& table, const std::string& directories, const DiskPlace& place,
                      layout::RequestKind kind, std::int32_t error) {
  const std::string why = error > 0 ? std::string("the disk says: ") + std::strerror(error)
                                    : std::string("there is ") + (error >= -4 && error < 0 ? kDamages[-error] : "?");
  const char* const way = kind == layout::kRequestRead ? "read from" : "written to";
  return Error(kE421, "table '", table, "': the row of key ", place.key, " cannot be ", way, " disk slot ", place.slot,
               " of ", directories, ": ", why,
               ". Earlier checkpoints can be restored. Check the disk, then restart the program");
}

}  // namespace ascpipe
