// A hold: keeps the trainer between two steps while a thread of the program saves or restores tables.
#ifndef ASCPIPE_BRIDGE_HOLD_H_
#define ASCPIPE_BRIDGE_HOLD_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "core/core_status.h"

namespace ascpipe {

// State of a table after a load, besides its entries and rows.
struct LoadedTable {
  std::int64_t entries;    // the number that the load began with; -1: the load was given up, the table is empty
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

// Holds the lease as a step does (a save shares it with evaluations, a restore has it alone) and keeps every mapping.
// No other wait of the trainer times out during a hold: saving a large table may take long.
class Hold {
 public:
  // Waits until it has the lease, and the truth of each table is the state after its last finished step.
  static CoreStatus Take(std::shared_ptr<Pipeline> pipeline, bool alone, std::unique_ptr<Hold>* hold);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  Pipeline& pipeline() const { return *pipeline_; }
  const std::shared_ptr<Pipeline>& shared_pipeline() const { return pipeline_; }

  // The parts of a load; between the first and the last, entries and rows are the caller's to write.  Needs a hold
  // taken alone.
  // Empties a table and provides memory for `entries` keys, the first `rows` of which have a row.  Fails, and changes
  // nothing, if there is not enough room or memory.
  CoreStatus BeginLoad(Table* table, std::int64_t entries, std::int64_t rows);
  // Writes entries from `first` on; each key has one entry.  `rows`: entry i has row i.
  CoreStatus WriteEntries(Table* table, std::int64_t first, const LoadedKeys& keys, bool rows);
  // All entries are written, so the worker may index them while the rows are written.
  CoreStatus EntriesWritten(Table* table);
  // The worker takes the filled table over.
  CoreStatus EndLoad(Table* table, const LoadedTable& loaded);

  // Of a table with rows on disk.  From the first to the second, what an entry says of the place of its row holds for
  // this process: the memory there is not used for another row.
  std::int64_t BeginReading(Table* table);
  void EndReading(Table* table, std::int64_t epoch);
  // Reads rows, or writes them in a load: float[count, row floats].  Waits for the disk worker, some rows at a time.
  CoreStatus MoveRows(Table* table, layout::RequestKind kind, const DiskPlace* places, std::int64_t count, float* rows);

  // Changes a table as AscCut does, where rank 0 asks this one for it.  Needs a hold taken alone.
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
