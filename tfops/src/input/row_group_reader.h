// Reads the rows of batches from decoded row groups.
#ifndef ASCPIPE_INPUT_ROW_GROUP_READER_H_
#define ASCPIPE_INPUT_ROW_GROUP_READER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "input/batch_plan.h"
#include "input/row_group_loader.h"
#include "input/row_groups.h"

namespace ascpipe {

// Rows of a batch that are in one row group.
struct RowRun {
  std::shared_ptr<const RowGroup> group;
  std::int64_t first;              // number of the row group's first row
  std::vector<std::int64_t> rows;  // rows, counted from `first`
};

// Between two batches, at most two row groups are in memory: the last row group of the batch, and the next row group,
// which a thread decodes in advance. Only one thread at a time may use a RowGroupReader.
class RowGroupReader {
 public:
  // A waiting Read returns when `is_stopped` is set.
  RowGroupReader(std::shared_ptr<const RowGroups> groups, const BatchPlanArguments& plan,
                 const std::atomic<bool>* is_stopped)
      : groups_(std::move(groups)), plan_(plan), is_stopped_(is_stopped) {}

  // Returns the rows of a part of an epoch's sequence. The caller must free `runs` before the next call.
  CoreStatus Read(std::int64_t epoch, SequencePart part, std::vector<RowRun>* runs);

  // Starts to decode the next row group of the plan, after the row group that was read last.
  void Prefetch();

 private:
  struct Loading;

  std::shared_ptr<Loading> Begin(std::size_t group) const;
  CoreStatus Get(std::size_t group, std::shared_ptr<const RowGroup>* found);
  const RowOrder& OrderOf(std::int64_t epoch);

  const std::shared_ptr<const RowGroups> groups_;
  const BatchPlanArguments plan_;
  const std::atomic<bool>* const is_stopped_;
  std::unique_ptr<RowOrder> order_;  // order of the last epoch
  std::size_t place_ = 0;            // position of the last row group in order_
  std::shared_ptr<Loading> current_, next_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_ROW_GROUP_READER_H_
