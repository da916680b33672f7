// Thread that watches a directory, and applies new updates in the directory to the tables of a served model.
#ifndef ASCPIPE_CORE_UPDATE_WATCH_H_
#define ASCPIPE_CORE_UPDATE_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/core_status.h"
#include "core/layered_rows.h"
#include "core/table_file.h"
#include "core/update_file.h"
#include "core/update_plan.h"

namespace ascpipe {

// Rows of all tables of a model, all after the same step. A ServedVersion is immutable after it is published.
struct ServedVersion {
  ServedAt at;
  std::map<std::string, LayeredRows> tables;
};

class UpdateWatch {
 public:
  struct Figures {
    std::int64_t applied = 0;    // updates
    std::int64_t refused = 0;    // updates, each counted once unless its file is replaced
    std::int64_t kept_keys = 0;  // keys of updates in memory, of all tables
    std::string problem;         // text of the last refusal or unreadable directory, or empty
  };

  // `at` is the version of the model's own table files.
  UpdateWatch(std::string directory, double every_s, ServedAt at);
  // Stops the thread and waits until it has ended.
  ~UpdateWatch();
  UpdateWatch(const UpdateWatch&) = delete;
  UpdateWatch& operator=(const UpdateWatch&) = delete;

  // Adds a table of the model, unless the table was added before. Call Start afterwards.
  void Add(const std::string& table, std::shared_ptr<const RowTable> rows);
  bool Has(const std::string& table) const;

  // Applies the updates of the directory to the tables, and starts the thread. Does nothing if no table was added since
  // the last call of Start.
  void Start();
  // Applies new updates. The thread calls Poll every `every_s` seconds.
  void Poll();

  // Returns the served version, or null if Start was not called. The version stays valid and unchanged while the caller
  // keeps the pointer.
  std::shared_ptr<const ServedVersion> Current() const;
  Figures figures() const;

 private:
  struct Stamp {
    std::uint64_t inode;
    std::int64_t bytes, changed_ns;
    bool operator==(const Stamp& other) const {
      return inode == other.inode && bytes == other.bytes && changed_ns == other.changed_ns;
    }
  };
  // A readable update in the directory. The file of an update is not kept open, because a directory may contain more
  // files than a process can open.
  struct Seen {
    std::string name;
    Stamp stamp;
    UpdateInfo info;
  };

  void Run();
  void Advance(const std::shared_ptr<const ServedVersion>& from, bool always);
  std::vector<Seen> Look(std::int64_t after);
  CoreStatus Apply(const Seen& update, ServedVersion* version) const;
  static Stamp StampOf(const std::string& path);
  void Refuse(const Seen& update, const CoreStatus& status);
  void ReportOrder(const Seen& update, const ServedAt& at);
  void Report(const CoreStatus& status, std::int64_t refused);

  const std::string directory_;
  const double every_s_;
  const ServedAt base_at_;

  std::mutex updating_;                   // held while updates are applied; protects the next three members
  std::map<std::string, Stamp> refused_;  // names of files that are not read again unless they change
  std::int64_t out_of_order_ = -1;        // sequence of the last update that was refused because of its order
  bool is_readable_ = true;               // true if the directory could be read

  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable stop_requested_;
  bool stop_ = false;
  bool was_changed_ = false;  // a table was added since Start
  std::map<std::string, std::shared_ptr<const RowTable>> tables_;
  std::shared_ptr<const ServedVersion> current_;
  Figures figures_;
  std::thread thread_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_UPDATE_WATCH_H_
