// A hold pauses training between two steps, so that a thread of the program can save or restore tables.
#ifndef ASCPIPE_BRIDGE_HOLD_H_
#define ASCPIPE_BRIDGE_HOLD_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "core/core_status.h"

namespace ascpipe {

// State of a table after a load, except its entries and rows.
struct LoadedTable {
  std::int64_t entries;    // argument of BeginLoad; -1: the load was aborted and the table is empty
  std::int64_t time;       // greatest timestamp of a trained batch
  std::int64_t threshold;  // access threshold, -1: none
  std::int64_t counting;   // 1: occurrences are counted
};

// Keys with their counts and timestamps. Each array has `count` elements.
struct LoadedKeys {
  std::int64_t count;
  const std::int64_t* keys;
  const std::int64_t* counts;
  const std::int64_t* timestamps;
};

// A hold owns the lease like a step, and keeps all segments mapped. A save shares the lease with evaluations. A restore
// holds the lease exclusively. Other waits of the trainer do not time out during a hold, because saving a large table
// may take a long time.
class Hold {
 public:
  // Acquires the lease, and waits until all tables are consistent (ReadersMayRead).
  static CoreStatus Take(std::shared_ptr<Pipeline> pipeline, bool alone, std::unique_ptr<Hold>* hold);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  Pipeline& pipeline() const { return *pipeline_; }
  const std::shared_ptr<Pipeline>& shared_pipeline() const { return pipeline_; }

  // A load calls BeginLoad, WriteEntries, EntriesWritten and EndLoad, and needs an exclusive hold. The caller may write
  // entries and rows between BeginLoad and EndLoad.
  //
  // BeginLoad empties a table and provides memory for `entries` keys. The first `rows` keys have a row. If there is
  // not enough space or memory, BeginLoad returns an error and changes nothing.
  CoreStatus BeginLoad(Table* table, std::int64_t entries, std::int64_t rows);
  // Writes one entry for each key, starting with entry `first`. If `rows` is true, entry i gets row i. If `rows` is
  // false, the entries have no rows.
  CoreStatus WriteEntries(Table* table, std::int64_t first, const LoadedKeys& keys, bool rows);
  // Announces that all entries are written. The table worker builds the table's index while the caller writes the rows.
  CoreStatus EntriesWritten(Table* table);
  // Returns the filled table to the worker.
  CoreStatus EndLoad(Table* table, const LoadedTable& loaded);

  // Between BeginReading and EndReading, the row locations in a table's entries stay valid for this process. Use
  // BeginReading and EndReading for tables with rows on disk.
  std::int64_t BeginReading(Table* table);
  void EndReading(Table* table, std::int64_t epoch);
  // Reads or writes rows on disk, and waits for the disk worker. `rows` is float[count, row floats]. Only loads may
  // write rows.
  CoreStatus MoveRows(Table* table, layout::RequestKind kind, const DiskPlace* places, std::int64_t count, float* rows);

  // Changes a table like AscCut, on request of rank 0. Cut needs an exclusive hold.
  CoreStatus Cut(Table* table, layout::CutKind kind, std::int64_t argument);
  // Freezes or unfreezes a table. Freeze needs an exclusive hold.
  CoreStatus Freeze(Table* table, bool frozen);

 private:
  Hold(std::shared_ptr<Pipeline> pipeline, bool alone);

  const std::shared_ptr<Pipeline> pipeline_;
  const Lease::Step id_;
  const bool alone_;
  bool is_taken_ = false;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_HOLD_H_
