// Sums of the gradients of a table's lookups. Each distinct row has one sum.
#ifndef ASCPIPE_BRIDGE_TABLE_SUMS_H_
#define ASCPIPE_BRIDGE_TABLE_SUMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/bag_gradients.h"
#include "core/blocks.h"
#include "core/segment_sum.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Sums of one table.
class TableSums {
 public:
  // The inputs must stay valid while the TableSums is used. `rows` may be null if no lookup has a max_norm. If
  // `partial` is true, rows that no lookup uses have no sum.
  tensorflow::Status Begin(const std::string& op, const tensorflow::Tensor& slots, const tensorflow::Tensor* rows,
                           std::int64_t dim, bool partial, std::vector<BagGradient> lookups);

  // Allocates the outputs with the indexes `values` and `indices`.
  tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, int values, int indices);

  std::int64_t positions() const { return positions_; }
  std::int64_t dim() const { return dim_; }
  bool has_bags() const { return has_bags_; }

  // Computes one part of the sums on the calling thread. Several threads may compute different parts at the same time.
  // If the table has no bags, there is only one part.
  void Add(const SumPart& part);

  // Adds all gradients of the table, using all threads of the pool. Call AddTogether only if there are no bags.
  void AddTogether(tensorflow::OpKernelContext* ctx);

  tensorflow::Status Outcome(const std::string& op) const;

 private:
  void AddLookups();
  void AddBags(const SumPart& part);
  void KeepOwnSlots();
  void Number();
  tensorflow::Status RequireRows(const std::string& op) const;

  const std::int32_t* slots_ = nullptr;
  std::int64_t count_ = 0, dim_ = 0, valid_ = 0, positions_ = 0;
  bool has_bags_ = false;
  std::vector<BagGradient> lookups_;
  std::vector<LookupGradient> plain_;  // the same lookups, if none has bags
  std::vector<FirstBad> bad_;          // by lookup
  std::vector<std::int32_t> own_slots_, places_;
  const tensorflow::Tensor* rows_ = nullptr;
  tensorflow::Tensor clipped_;
  float* sums_ = nullptr;
  std::int32_t* indices_ = nullptr;
};

// Computes the sums of `tables`. The op of `ctx` outputs the values of all tables, and then the indices of all tables.
// A thread processes a whole table or a part of a table. The sums do not depend on the number of threads.
tensorflow::Status SumTables(tensorflow::OpKernelContext* ctx, std::vector<TableSums>* tables);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TABLE_SUMS_H_
