// Home rows that a step uses in place: their handles, and reading and writing them.
#ifndef ASCPIPE_CORE_HOME_ROWS_H_
#define ASCPIPE_CORE_HOME_ROWS_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// The home rows of a table: a row holds its part of each state array, one after the other.
struct HomeRows {
  float* data = nullptr;  // float[ready, row_floats], in shared memory
  std::int64_t row_floats = 0;
  std::int64_t ready = 0;  // rows that have memory; no others may be touched
};

constexpr int kMaxHandledTable = 254;

// An expansion table has no slots, so that kSlotFrozen, which makes the code of each of its rows 0 or more, tells the
// codes of padding keys from the others.
constexpr std::int32_t kMaxExpansionRows = 1000000000;
static_assert(layout::kSlotHome - (kMaxExpansionRows - 1) + layout::kSlotFrozen >= 0, "frozen codes look like others");

// A handle is (table + 1) << 56 | step << 40 | row.  Handle 0 names no row.
struct Handle {
  int table;         // 0 to kMaxHandledTable
  int step;          // StepOf the ticket in whose step it is valid
  std::int64_t row;  // below 2^40

  std::int64_t bits() const;
  static Handle Of(std::int64_t bits);
};

// 1 to 65535: distinguishes the handles of a step from those of neighbouring steps.
int StepOf(std::int64_t ticket);

// The table whose rows are used.
struct HandledTable {
  int number = -1;
  std::string name;
  int step = 0;  // of the step that trains it now; 0: none does
  HomeRows home;
};

// "handle 0x100050000000007 at index 3 (table 0, step 5, row 7)"
std::string Describe(std::int64_t handle, std::int64_t index);

// Fails unless each handle is 0 or a row of `table` in the step that trains it now.
//   handles  int64[count]
CoreStatus CheckHandles(const std::int64_t* handles, std::int64_t count, const HandledTable& table);

// The home row behind the code of an expansion table, with or without kSlotFrozen; -1: the key has none.
inline std::int64_t HomeOf(std::int32_t code) {
  return std::int64_t{layout::kSlotHome} - (code >= 0 ? code - layout::kSlotFrozen : code);
}

// Names the rows of a plan.
//   codes   int32[count]
//   handles int64[count], 0 where a key has no row
//   places  int32[count], i, with kSlotFrozen where the code has it, or kSlotNone where a key has no row
// Returns the index of the first code of a row without memory, or -1; elements after it are not written.
std::int64_t NameRows(const std::int32_t* codes, std::int64_t count, const HandledTable& table, std::int64_t* handles,
                      std::int32_t* places);

// out[i] = the first `width` floats of row i, zeros for handle 0, for i in [begin, end); the handles were checked.
//   handles  int64[end]   out  float[end, width]
void ReadRows(const HomeRows& home, const std::int64_t* handles, std::int64_t begin, std::int64_t end,
              std::int64_t width, float* out);

// Stores `rows`, or adds them, into the first floats of their home rows, in the order of the handles.  The rows are
// dealt out to `parts` calls that may run at the same time, so that a row named twice is written by one of them.
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
