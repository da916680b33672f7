// Holds keep the trainer between two steps while a thread of the program saves or restores tables.
#ifndef ASCPIPE_BRIDGE_HOLD_H_
#define ASCPIPE_BRIDGE_HOLD_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "core/core_status.h"

namespace ascpipe {

// State of a table after a load, besides its entries and rows.
struct LoadedTable {
  std::int64_t entries;    // as in BeginLoad; -1: the load was aborted and the table is empty
  std::int64_t time;       // greatest timestamp of a trained batch
  std::int64_t threshold;  // access threshold, -1: none
  std::int64_t counting;   // 1: occurrences are counted
};

// Keys with their counts and timestamps, `count` of each.
struct LoadedKeys {
  std::int64_t count;
  const std::int64_t* keys;
  const std::int64_t* counts;
  const std::int64_t* timestamps;
};

// Holds the lease like a step (a save shares it with evaluations, a restore has it exclusively) and keeps all mappings.
// Other waits of the trainer do not time out during a hold, because saving a large table may take long.
class Hold {
 public:
  // Waits for the lease, and until all tables are consistent (ReadersMayRead).
  static CoreStatus Take(std::shared_ptr<Pipeline> pipeline, bool alone, std::unique_ptr<Hold>* hold);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  Pipeline& pipeline() const { return *pipeline_; }
  const std::shared_ptr<Pipeline>& shared_pipeline() const { return pipeline_; }

  // Steps of a load.  The caller may write entries and rows between BeginLoad and EndLoad.  Needs an exclusive hold.
  // Empties a table and provides memory for `entries` keys, the first `rows` of which have a row.  Fails, and changes
  // nothing, if there is not enough room or memory.
  CoreStatus BeginLoad(Table* table, std::int64_t entries, std::int64_t rows);
  // Writes entries from `first` on; each key has one entry.  `rows`: entry i has row i.
  CoreStatus WriteEntries(Table* table, std::int64_t first, const LoadedKeys& keys, bool rows);
  // Declares that all entries are written, so that the worker indexes them while the rows are written.
  CoreStatus EntriesWritten(Table* table);
  // Returns the filled table to the worker.
  CoreStatus EndLoad(Table* table, const LoadedTable& loaded);

  // Between these calls, the row locations in the entries of a table with rows on disk stay valid for this process:
  // they are not reused for other rows.
  std::int64_t BeginReading(Table* table);
  void EndReading(Table* table, std::int64_t epoch);
  // Reads rows on disk, or writes them in a load: float[count, row floats].  Waits for the disk worker.
  CoreStatus MoveRows(Table* table, layout::RequestKind kind, const DiskPlace* places, std::int64_t count, float* rows);

  // Changes a table like AscCut, on request of rank 0.  Needs an exclusive hold.
  CoreStatus Cut(Table* table, layout::CutKind kind, std::int64_t argument);

 private:
  Hold(std::shared_ptr<Pipeline> pipeline, bool alone);

  const std::shared_ptr<Pipeline> pipeline_;
  const Lease::Step id_;
  const bool alone_;
  bool is_taken_ = false;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_HOLD_H_
