// Background save. A thread of the program reads a snapshot of tables while training continues.
#ifndef ASCPIPE_BRIDGE_SAVE_H_
#define ASCPIPE_BRIDGE_SAVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "bridge/hold.h"
#include "bridge/pipeline.h"
#include "core/core_status.h"
#include "core/layout.h"
#include "core/row_log.h"

namespace ascpipe {

// Snapshot of some tables, taken during a hold. Only one save may exist at a time. A save keeps all segments mapped.
// Waits of the trainer do not time out during a save, because a step may wait for space in a log.
class BackgroundSave {
 public:
  // Begins a save. `log_bytes` is the total size of the memory for images of home rows of all tables. If there is not
  // enough memory, Begin returns an error and changes nothing.
  static CoreStatus Begin(const std::shared_ptr<Pipeline>& pipeline, const std::vector<Table*>& tables,
                          std::int64_t log_bytes, std::shared_ptr<BackgroundSave>* save);
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Returns the copy of a state array of the device table. `copy` has no data if the device table has no array `index`.
  CoreStatus Device(int table, int index, StateRows* copy) const;
  // Copies the entries of a table (core/entry_snapshot.h). Call ReadEntries once for each table.
  CoreStatus ReadEntries(int table, layout::Entry* entries, std::int64_t count);
  // Declares all rows that will be read with ReadRows. Read each row only once. `numbers` contains indexes of home
  // rows. If the table has rows on disk, `numbers` contains indexes of entries, because the workers move rows between
  // home rows and disk.
  CoreStatus WantRows(int table, const std::int32_t* numbers, std::int64_t count);
  CoreStatus ReadRows(int table, const std::int32_t* numbers, std::int64_t count, float* out);

 private:
  explicit BackgroundSave(std::shared_ptr<Pipeline> pipeline);
  CoreStatus Find(int table, Table** found) const;
  CoreStatus FindLog(int table, const std::int32_t* numbers, std::int64_t count, RowLog** log) const;
  CoreStatus ReadMovingRows(Table* table, const std::int32_t* numbers, std::int64_t count, RowLog* log, float* out);
  void Wake(const Table& table) const;
  CoreStatus CopyDevice(const std::vector<Table*>& tables);

  const std::shared_ptr<Pipeline> pipeline_;
  std::map<int, Table*> tables_;
  std::map<int, std::shared_ptr<RowLog>> logs_;
  std::map<int, std::vector<StateRows>> device_;  // copies by table, in the order of Table::State
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SAVE_H_
