// Handles of home rows that a step uses in place, and access to these rows.
#ifndef ASCPIPE_CORE_HOME_ROWS_H_
#define ASCPIPE_CORE_HOME_ROWS_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// Home rows of a table. A home row contains the embedding and the optimizer slots, one after the other.
struct HomeRows {
  float* data = nullptr;  // float[ready, row_floats], in shared memory
  std::int64_t row_floats = 0;
  std::int64_t ready = 0;  // number of rows that have memory; do not access other rows
};

constexpr int kMaxHandledTable = 254;

// Maximum number of rows of an expansion table. The limit ensures that the code of a row plus kSlotFrozen is not
// negative. Without kSlotFrozen, all codes are negative, because an expansion table has no slots.
constexpr std::int32_t kMaxExpansionRows = 1000000000;
static_assert(layout::kSlotHome - (kMaxExpansionRows - 1) + layout::kSlotFrozen >= 0, "frozen codes look like others");

// A handle is (table + 1) << 56 | step << 40 | row. Handle 0 refers to no row.
struct Handle {
  int table;         // 0 to kMaxHandledTable
  int step;          // StepOf(ticket) of the step in which it is valid
  std::int64_t row;  // below 2^40

  std::int64_t bits() const;
  static Handle Of(std::int64_t bits);
};

// Returns a number from 1 to 65535 that distinguishes the handles of a step from the handles of the previous and the
// next step.
int StepOf(std::int64_t ticket);

// Expansion table whose rows are accessed by handles.
struct HandledTable {
  int number = -1;
  std::string name;
  int step = 0;  // StepOf(ticket) of the step that trains it now; 0: none
  HomeRows home;
};

// Returns a description such as "handle 0x100050000000007 at index 3 (table 0, step 5, row 7)".
std::string Describe(std::int64_t handle, std::int64_t index);

// Returns an error unless each handle is 0 or refers to a row of `table` in the current training step. `handles` is
// int64[count].
CoreStatus CheckHandles(const std::int64_t* handles, std::int64_t count, const HandledTable& table);

// Converts a code of an expansion table to the number of the home row. Returns -1 if the key has no row. `code` may
// include kSlotFrozen.
inline std::int64_t HomeOf(std::int32_t code) {
  return std::int64_t{layout::kSlotHome} - (code >= 0 ? code - layout::kSlotFrozen : code);
}

// Computes `handles` and `places` for the rows of a plan. `codes`, `handles` and `places` have `count` elements. If key
// i has no row, handles[i] is 0 and places[i] is kSlotNone. If key i has a row, places[i] is i, or i + kSlotFrozen if
// the code includes kSlotFrozen. Returns the index of the first code whose row has no memory, or -1 if there is none.
// Elements after the returned index are not written.
std::int64_t NameRows(const std::int32_t* codes, std::int64_t count, const HandledTable& table, std::int64_t* handles,
                      std::int32_t* places);

// Copies the first `width` floats of the row of handles[i] to out[i], for i in [begin, end). Writes zeros for handle 0.
// All handles must be valid. `handles` is int64[end], and `out` is float[end, width].
void ReadRows(const HomeRows& home, const std::int64_t* handles, std::int64_t begin, std::int64_t end,
              std::int64_t width, float* out);

// Writes to home rows by handles. Write copies rows[i] to the first `width` floats of the row of handles[i], in the
// order of the handles. If `add` is true, Write adds rows[i] instead. The home rows are partitioned among `parts`
// concurrent calls of Write. Only one call writes a given home row, even if two handles refer to the row.
struct RowWrites {
  HomeRows home;
  const std::int64_t* handles;  // int64[count], checked
  std::int64_t count;
  std::int64_t width;
  const float* rows;  // float[count, width]
  bool add;

  void Write(std::int64_t part, std::int64_t parts) const;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_HOME_ROWS_H_
