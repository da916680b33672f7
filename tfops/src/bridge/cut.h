// A cut: a change of a table exactly between two trained steps.
#ifndef ASCPIPE_BRIDGE_CUT_H_
#define ASCPIPE_BRIDGE_CUT_H_

#include <memory>

#include "bridge/async_wait.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"

namespace ascpipe {

// Takes the lease alone, asks the table worker, and is over when the change is applied.
//
// The step must not train as well: its own batch would be half before and half after the change.
class CutWait : public AsyncWait {
 public:
  CutWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, Table* of, layout::CutKind kind, std::int64_t argument,
          tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

  bool Poll(CoreStatus* status) override;
  void Left() override;

 protected:
  void Proceed() override { End(tensorflow::Status::OK()); }

 private:
  bool Begins(CoreStatus* status);
  bool AllHaveChanged(CoreStatus* status);

  Table& table_;
  const layout::CutKind kind_;
  const std::int64_t argument_;
  std::int64_t asked_ = 0;  // id of the request to the table worker, 0: none yet
  // Of several ranks, what rank 0 has asked the others for.
  std::int64_t number_ = 0;
  std::shared_ptr<Asking> asking_;
  std::shared_ptr<const Asking> ending_;
};

// Whether a change would have no effect on a table of a training stream.
bool CutIsNeedless(const Table& table, const Stream& stream, int index, layout::CutKind kind);

// First step of both ops that cut: finds the table and the step.  The caller gets one reference to `step`.
tensorflow::Status PrepareCut(tensorflow::OpKernelContext* ctx, const char* op, int number,
                              std::shared_ptr<Pipeline>* pipeline, Table** table, StepEnd** step);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_CUT_H_
