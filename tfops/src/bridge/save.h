// Background save: a thread of the program reads a snapshot of tables while training continues.
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

// Snapshot of some tables, taken during a hold.  One save at a time.  Keeps all mappings.  Waits of the trainer do not
// time out during a save, because a step may wait for room in a log.
class BackgroundSave {
 public:
  // `log_bytes`: for images of home rows, over all tables.  Fails, and changes nothing, if there is no memory.
  static CoreStatus Begin(const std::shared_ptr<Pipeline>& pipeline, const std::vector<Table*>& tables,
                          std::int64_t log_bytes, std::shared_ptr<BackgroundSave>* save);
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Returns the copy of a table's state array on the device; without data if there is none.
  CoreStatus Device(int table, int index, StateRows* copy) const;
  // See core/entry_snapshot.h; once for each table.
  CoreStatus ReadEntries(int table, layout::Entry* entries, std::int64_t count);
  // Declares all home rows that will be read; each is then read once.  In a table with rows on disk, `numbers` are
  // entry numbers, and the rows are at home or on disk.
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
  std::map<int, std::vector<StateRows>> device_;  // by table, then as Table::State: the copies
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SAVE_H_
