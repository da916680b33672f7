// Row moves of one plan. The step executes the moves while the state of the plan is CLAIMED, and then sets the state to
// DONE.
#ifndef ASCPIPE_CORE_ROW_MOVES_H_
#define ASCPIPE_CORE_ROW_MOVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "core/error_codes.gen.h"
#include "core/home_rows.h"
#include "core/initial_rows.h"
#include "core/part_view.h"
#include "core/ticket.h"

namespace ascpipe {

// One state array of a table: the embeddings, or one optimizer slot.
struct StateRows {
  float* data;  // float[rows, width], `stride` floats from one row to the next
  std::int64_t width;
  std::int64_t stride;
  float initial;  // initial value of an optimizer slot; new embeddings come from InitialRows

  float* row(std::int64_t slot) const { return data + slot * stride; }
};

// Arrays of one table that the row moves of a plan change.
struct MovedTable {
  const std::string* name = nullptr;
  std::int64_t device_rows = 0;  // for an expansion table, the number of its home rows
  HomeRows home;                 // empty for a table without home rows
  const InitialRows* initial = nullptr;
  const std::vector<StateRows>* state = nullptr;  // [0] is the embeddings, the next elements are optimizer slots
};

// Memory for the arrays of a plan that the step still needs after DONE. The arrays are copied from the frame, because
// the frame may be reused after DONE.
struct PlanOutputs {
  struct Array {
    std::int32_t* data;
    std::int64_t count;  // allocated size; the count in the frame may have changed
  };
  Array slots;                  // one per distinct key
  std::vector<Array> restores;  // per feature, one per id
};

// Array of a plan that contains a location for each key: the slot or home row of the key's row. Locations are in
// [lowest, limit).
struct PlanColumn {
  std::int64_t layout::Part::*values;
  std::int64_t lowest;
  std::int64_t limit;
};

// Copies a column and the restore indexes from a frame. Returns an error only if the record is damaged.
CoreStatus CopyPlan(const std::string& table, const PartView& part, const PlanColumn& column,
                    const PlanOutputs& outputs);
// Copies only the restore indexes, which must be in [0, keys).
CoreStatus CopyRestore(const std::string& table, const PartView& part, std::int64_t keys, const PlanOutputs& outputs);

// Returns the error E301 for a ticket whose record is damaged.
template <typename... Parts>
CoreStatus Damaged(const std::string& table, std::int64_t ticket, const Parts&... parts) {
  return Error(kE301, "table '", table, "': the record of ticket ", SequenceOf(ticket), " ", parts...,
               ". It is damaged and no row was moved; restart the program");
}

// Returns the lowest code of a table that has `homes` home rows. Returns kSlotNone if `homes` is 0.
inline std::int64_t LowestCode(std::int64_t homes) {
  return homes > 0 ? layout::kSlotHome - (homes - 1) : layout::kSlotNone;
}

// Replaces the numbers of home rows by their codes. The value -1 (no home row) becomes kSlotNone.
void EncodeHomes(const PlanOutputs::Array& homes);

// Adds kSlotFrozen to all slots or codes of rows.
void FreezeAll(const PlanOutputs::Array& slots);

// Adds kSlotFrozen to the slots or codes of padding keys. `keys` is int64[slots.count]. `padding` contains the padding
// keys in ascending order.
void FreezePadding(const std::int64_t* keys, const std::vector<std::int64_t>& padding, const PlanOutputs::Array& slots);

// Row moves of one record. Finish all swap-outs before the first swap-in, because a row may move into the slot of a row
// that is swapped out. Several threads may execute swap-outs at the same time. After all swap-outs, several threads may
// execute swap-ins at the same time.
class RowMoves {
 public:
  // Validates the whole record before any move. CopyPlan has already validated `slots`. Returns an error only if the
  // record is damaged. Read keeps pointers to the arguments, but copies the validated data, because other processes may
  // change the record.
  CoreStatus Read(const PartView& part, const MovedTable& table, const PlanOutputs::Array& slots);

  std::int64_t outs() const { return static_cast<std::int64_t>(out_slots_.size()); }  // rows that move to home rows
  const std::int32_t* out_homes() const { return out_homes_.data(); }                 // their destinations
  std::int64_t ins() const { return static_cast<std::int64_t>(in_.size()); }  // new rows, then rows from home rows

  // `Out` executes the swap-outs [begin, end), and `In` executes the swap-ins [begin, end).
  void Out(std::int64_t begin, std::int64_t end) const;
  void In(std::int64_t begin, std::int64_t end) const;
  // Reverts the swap-outs [begin, end): copies the rows back from the home rows to the slots. `Back` may also be called
  // after `In`. `Back` does not use the arguments `part` and `slots` of Read.
  void Back(std::int64_t begin, std::int64_t end) const;

 private:
  template <void (*Copy)(float*, const float*, std::int64_t), bool kFetchesHome>
  void OutBy(std::int64_t begin, std::int64_t end) const;
  // A row that moves to the device. `home` is valid only if the row moves from a home row.
  struct Arrival {
    std::int32_t index;  // index of its key
    std::int32_t slot;
    std::int32_t home;
  };
  CoreStatus ReadArrivals(const PartView& part, std::int64_t count, const PlanOutputs::Array& slots);
  void Begin(const Arrival& in) const;
  void Load(const Arrival& in) const;

  const MovedTable* table_ = nullptr;
  const std::int64_t* keys_ = nullptr;
  std::vector<Arrival> in_;
  std::vector<std::int32_t> out_slots_, out_homes_;
  std::int64_t fresh_ = 0;  // number of new rows, which are the first arrivals
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_MOVES_H_
