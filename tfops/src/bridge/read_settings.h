// Settings of a dataset that reads records.
#ifndef ASCPIPE_BRIDGE_READ_SETTINGS_H_
#define ASCPIPE_BRIDGE_READ_SETTINGS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "bridge/batch_parser.h"
#include "core/reading_figures.h"
#include "input/batch_plan.h"
#include "input/record_set.h"

namespace ascpipe {

// All iterators of a dataset share its settings.
struct ReadSettings {
  std::int64_t source = 0;  // number of the dataset in this process; negative: the program does not see the batches
  std::unique_ptr<const RecordSet> records;
  BatchPlanArguments plan = {};
  std::int64_t rank = 0;
  std::unique_ptr<const BatchParser> parser;
  std::int64_t readers = 1;     // number of threads
  std::int64_t read_ahead = 1;  // maximum number of batches that were read but not returned
  bool skips_bad_records = false;
  mutable std::atomic<std::int64_t> skipped_records{0};

  // Adds to the counters of the process.
  void Count(const layout::Reading& by) const {
    if (source > 0) ReadingFigures::Get()->Add(by);
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_SETTINGS_H_
