// Moves the rows of one claimed plan: what happens between CLAIMED and DONE.
#ifndef ASCPIPE_CORE_ROW_MOVES_H_
#define ASCPIPE_CORE_ROW_MOVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "core/initial_rows.h"
#include "core/ring.h"

namespace ascpipe {

// One state array of a table: its rows, or an optimizer slot of each row.
struct StateRows {
  float* data;          // float[rows, width]
  std::int64_t width;
  float initial;        // of an optimizer slot; the table's own rows come from InitialRows
};

// Where the step keeps what it needs of the plan after DONE, when the frame may be used anew.
struct PlanOutputs {
  struct Array {
    std::int32_t* data;
    std::int64_t count;  // as allocated; what the frame says meanwhile does not matter
  };
  Array slots;                  // one per distinct key
  std::vector<Array> restores;  // per feature, one per id
};

// Copies slots and restore indexes out of the frame.  False: a slot is outside [-1, device_rows), so the plan
// is damaged; *bad is its index.
bool CopyPlan(const RingView& ring, std::int64_t frame, int table_index, std::int64_t device_rows,
              const PlanOutputs& outputs, std::int64_t* bad);

// Gives new keys their initial rows.  `state[0]` is the table, the others are optimizer slots.
// Fails only if the record cannot be: this version has no tier below the device.
CoreStatus MoveRows(const RingView& ring, std::int64_t frame, int table_index, const std::string& table,
                    const InitialRows& initial, const std::int32_t* slots, const std::vector<StateRows>& state);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_MOVES_H_
