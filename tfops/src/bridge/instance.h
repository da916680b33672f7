// Rows of a checkpoint that a session reads instead of the live tables.
#ifndef ASCPIPE_BRIDGE_INSTANCE_H_
#define ASCPIPE_BRIDGE_INSTANCE_H_

#include <map>
#include <memory>

#include "bridge/given.h"
#include "core/fixed_rows.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Read-only rows of some tables, by table number. A session reads the live rows of tables that the Instance does not
// contain.
struct Instance {
  std::map<int, std::shared_ptr<FixedRows>> tables;
};

// Instances that the program has not released yet.
Given<Instance>& Instances();

// Makes the session of `ctx` read `rows` instead of the live table. If `rows` is null, the session reads the live
// table. The session keeps the rows alive.
tensorflow::Status ReadInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows> rows);
// Returns the rows that the session of `ctx` reads for a table, or null if the session reads the live table.
tensorflow::Status RowsInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows>* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_INSTANCE_H_
