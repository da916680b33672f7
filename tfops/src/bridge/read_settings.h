// Settings of a dataset that reads records.
#ifndef ASCPIPE_BRIDGE_READ_SETTINGS_H_
#define ASCPIPE_BRIDGE_READ_SETTINGS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "bridge/batch_parser.h"
#include "bridge/row_columns.h"
#include "core/reading_figures.h"
#include "input/batch_plan.h"
#include "input/record_set.h"
#include "input/row_groups.h"

namespace ascpipe {

// All iterators of a dataset share its settings.
struct ReadSettings {
  std::int64_t source = 0;  // number of the dataset in this process; negative: the program does not see the batches
  std::unique_ptr<const RecordSet> records;     // null for Parquet files
  std::shared_ptr<const RowGroups> row_groups;  // null unless the files are Parquet files
  BatchPlanArguments plan = {};
  std::int64_t rank = 0;
  std::unique_ptr<const BatchParser> parser;
  std::unique_ptr<const RowColumns> columns;  // null unless the files are Parquet files
  std::int64_t readers = 1;                   // number of threads
  std::int64_t read_ahead = 1;                // maximum number of batches that were read but not returned
  bool skips_bad_records = false;
  mutable std::atomic<std::int64_t> skipped_records{0};

  // Adds `by` to the counters of the process.
  void Count(const layout::Reading& by) const {
    if (source > 0) ReadingFigures::Get()->Add(by);
  }
  // Adds `by` to the counters of the process, and records the span of a batch.
  void Count(const layout::Reading& by, const layout::ReadingSpan& span) const {
    if (source > 0) ReadingFigures::Get()->Add(by, span);
  }

  // Returns the file and the position of a record for messages.
  std::string Describe(std::int64_t record) const {
    return row_groups != nullptr ? row_groups->Describe(record) : records->Describe(record);
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_SETTINGS_H_
