// Counts the lists of a Parquet column, and the values of the lists, in the column's repetition levels. A level of 0
// begins a list.
#ifndef ASCPIPE_ROWS_LIST_LEVELS_H_
#define ASCPIPE_ROWS_LIST_LEVELS_H_

#include <cstdint>

namespace ascpipe {

// Counters of the values in consecutive batches of lists. A list without values counts as one value, as in Parquet.
struct ListBatches {
  std::int64_t lists;   // of the current batch
  std::int64_t values;  // of the current batch
  std::int64_t most;    // values of the largest batch
};

// Counts the `count` levels of a page. Levels of 0 and 1 are encoded as runs and groups of eight bits ("RLE" in the
// specification of Parquet). A batch has batch_lists lists. Returns false if the levels are damaged.
bool CountLists(const std::uint8_t* levels, std::int64_t bytes, std::int64_t count, std::int64_t batch_lists,
                ListBatches* batches);

}  // namespace ascpipe

#endif  // ASCPIPE_ROWS_LIST_LEVELS_H_
