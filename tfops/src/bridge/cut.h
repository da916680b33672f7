// Cuts: changes of a table between two trained steps.
#ifndef ASCPIPE_BRIDGE_CUT_H_
#define ASCPIPE_BRIDGE_CUT_H_

#include <memory>

#include "bridge/async_wait.h"
#include "bridge/compatibility.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"

namespace ascpipe {

// Wait of an op that executes a cut. Acquires the lease exclusively, sends the cut to the table worker, and ends when
// the cut is applied.
//
// The step of a CutWait must not train (StepEnd::MayCut).
class CutWait : public AsyncWait {
 public:
  CutWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, Table* of, layout::CutKind kind, std::int64_t argument,
          tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

  bool Poll(CoreStatus* status) override;
  void Left() override;

 protected:
  void Proceed() override { End(OkStatus()); }

 private:
  bool Begins(CoreStatus* status);
  bool AllHaveChanged(CoreStatus* status);

  Table& table_;
  const layout::CutKind kind_;
  const std::int64_t argument_;
  std::int64_t asked_ = 0;  // id of the request to the table worker; 0: not sent yet
  // Number of the request of rank 0, used only if there are several ranks.
  std::int64_t number_ = 0;
  std::shared_ptr<Asking> asking_;
  std::shared_ptr<const Asking> ending_;
};

// Returns true if a cut would not change the table.
bool CutIsNeedless(const Table& table, const Stream& stream, int index, layout::CutKind kind);

// Finds the table and the step for an op that executes a cut. The caller owns one reference to `step`.
tensorflow::Status PrepareCut(tensorflow::OpKernelContext* ctx, const char* op, int number,
                              std::shared_ptr<Pipeline>* pipeline, Table** table, StepEnd** step);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_CUT_H_
