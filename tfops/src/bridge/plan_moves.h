// Execution of a claimed plan: the slots are copied to outputs of the plan op, and the rows of the plan's keys are
// moved.
#ifndef ASCPIPE_BRIDGE_PLAN_MOVES_H_
#define ASCPIPE_BRIDGE_PLAN_MOVES_H_

#include <cstdint>
#include <vector>

#include "bridge/table.h"
#include "core/part_view.h"
#include "core/row_moves.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// A PlanMoves keeps pointers to the outputs of the plan op. The outputs exist as long as the step reads them.
class PlanMoves {
 public:
  PlanMoves(const PartView& part, Table* table, std::vector<StateRows> state, PlanOutputs outputs);

  Table& table() const { return *table_; }

  // Returns false if a background save lacks memory for images of all home rows that the plan can change.
  static bool ImagesFit(const PartView& part, Table* table);

  // Copies, validates and executes the moves of the plan. Call CarryOut after each claim. The claim after TakeBack may
  // have a different plan. CarryOut neither waits nor allocates outputs. CarryOut returns an error only if the record
  // is damaged.
  tensorflow::Status CarryOut(tensorflow::OpKernelContext* ctx);
  // Copies swapped-out rows from the home rows back to the slots. The home rows have not changed since CarryOut.
  void TakeBack() const { moves_.Back(0, moves_.outs()); }

 private:
  tensorflow::Status Move(tensorflow::OpKernelContext* ctx);
  void KeepImages(tensorflow::OpKernelContext* ctx, std::int64_t block);

  PartView part_;
  Table* table_;
  std::vector<StateRows> state_;
  PlanOutputs outputs_;
  MovedTable moved_;  // its `state` is state_
  RowMoves moves_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_MOVES_H_
