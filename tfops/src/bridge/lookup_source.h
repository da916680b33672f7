// Rows that a lookup op reads.
#ifndef ASCPIPE_BRIDGE_LOOKUP_SOURCE_H_
#define ASCPIPE_BRIDGE_LOOKUP_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "bridge/step_rows.h"
#include "core/blocks.h"
#include "core/gather.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Rows of a table, and slots of a batch's distinct ids.
class LookupSource {
 public:
  // Reads the inputs with the indexes `rows` and `slots`, and validates all slots. `table` may be -1 if no slot is the
  // code of a home row. The default row contains zeros until ReadDefault is called.
  tensorflow::Status Read(tensorflow::OpKernelContext* ctx, int rows, int slots, int table);
  // Reads the default row from input `place`.
  tensorflow::Status ReadDefault(tensorflow::OpKernelContext* ctx, int place);

  const GatherSource& gather() const { return source_; }

  // Returns the error for an invalid restore index at position `bad` of a lookup.
  tensorflow::Status BadRestore(const std::string& op, const std::int32_t* restore, std::int64_t bad, int lookup) const;

 private:
  tensorflow::Status UseFixed(const std::string& op);
  tensorflow::Status FindHomes(tensorflow::OpKernelContext* ctx, int table);

  GatherSource source_ = {};
  tensorflow::Tensor rows_;  // keeps the memory alive
  std::vector<float> default_row_;
  std::shared_ptr<Pipeline> pipeline_;      // keeps the mapping while home rows are read
  std::shared_ptr<const StepRows> copied_;  // copies of this step, for a table with rows on disk
  // Rows of a checkpoint, or null. Codes of slots refer to rows of the checkpoint if `fixed_` is not null.
  std::shared_ptr<const FixedRows> fixed_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_LOOKUP_SOURCE_H_
