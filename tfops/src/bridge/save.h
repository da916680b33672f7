// A save in the background: what a thread of the program reads of the tables while training goes on.
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

// From a hold on, until its end, the state of some tables can be read as it was then.  One at a time.
// Keeps every mapping; while it lasts, no wait of the trainer runs out of time, as a step may wait for room in a log.
class BackgroundSave {
 public:
  // `log_bytes`: for images of home rows, in all.  An error: there is no memory, and nothing was changed.
  static CoreStatus Begin(const std::shared_ptr<Pipeline>& pipeline, const std::vector<Table*>& tables,
                          std::int64_t log_bytes, std::shared_ptr<BackgroundSave>* save);
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // The copy of a table's state array on the device; without data: there is none.
  CoreStatus Device(int table, int index, StateRows* copy) const;
  // See core/entry_snapshot.h; once for each table.
  CoreStatus ReadEntries(int table, layout::Entry* entries, std::int64_t count);
  // Says which home rows are wanted, all of them; then they are read, each once.
  CoreStatus WantRows(int table, const std::int32_t* homes, std::int64_t count);
  CoreStatus ReadRows(int table, const std::int32_t* homes, std::int64_t count, float* out);

 private:
  explicit BackgroundSave(std::shared_ptr<Pipeline> pipeline);
  CoreStatus Find(int table, Table** found) const;
  CoreStatus FindLog(int table, const std::int32_t* homes, std::int64_t count, RowLog** log) const;
  void Wake(const Table& table) const;
  CoreStatus CopyDevice(const std::vector<Table*>& tables);

  const std::shared_ptr<Pipeline> pipeline_;
  std::map<int, Table*> tables_;
  std::map<int, std::shared_ptr<RowLog>> logs_;
  std::map<int, std::vector<StateRows>> device_;  // by table, then as Table::State: the copies
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SAVE_H_
