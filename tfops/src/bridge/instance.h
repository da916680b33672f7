// What a session reads instead of the live tables: the rows of a checkpoint.
#ifndef ASCPIPE_BRIDGE_INSTANCE_H_
#define ASCPIPE_BRIDGE_INSTANCE_H_

#include <map>
#include <memory>

#include "bridge/given.h"
#include "core/fixed_rows.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// A read-only instance of tables, by their numbers; those that it lacks are read live.
struct Instance {
  std::map<int, std::shared_ptr<FixedRows>> tables;
};

// Instances that the program fills or has not given to a session yet.
Given<Instance>& Instances();

// From now on the session of `ctx` reads these rows for a table; null: the live table.  The session keeps them.
tensorflow::Status ReadInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows> rows);
// What the session of `ctx` reads for a table; null: the live table.
tensorflow::Status RowsInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows>* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_INSTANCE_H_
