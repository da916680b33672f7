// The one pipeline of the process: what ascpipe/tf/native.py sets up and the ops use.
#ifndef ASCPIPE_BRIDGE_PIPELINE_H_
#define ASCPIPE_BRIDGE_PIPELINE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bridge/table.h"
#include "core/core_status.h"
#include "core/lease.h"
#include "core/pump.h"
#include "core/segment.h"
#include "core/stream.h"
#include "core/waiter.h"

namespace ascpipe {

class Pipeline {
 public:
  static CoreStatus Make(std::int64_t run, int session_fd, const Waiter::Settings& settings,
                         std::shared_ptr<Pipeline>* pipeline);
  ~Pipeline() { Stop(); }

  // Tables and training streams before Start only.
  // padding_keys: their rows are looked up and never updated.
  CoreStatus AddTable(int number, const std::string& name, const TableSizes& sizes,
                      std::vector<std::int64_t> padding_keys, const InitialRows& initial, int fd, std::int64_t bytes);
  // pool: float[rows, dim], copied.  For a table whose initial rows come from a pool, before its streams; another one
  // later, between two steps.
  CoreStatus SetPool(int number, const float* pool, std::int64_t rows, std::int64_t dim);
  // Also after Start, for evaluation; batches are taken as soon as this returns.
  CoreStatus AddStream(int number, int channel, int fd, std::int64_t bytes, const std::vector<int>& tables,
                       const std::vector<int>& feature_tables, const std::vector<std::string>& feature_names);
  // From now on, ops that name stream `number` use stream `known`, which has the same features.
  CoreStatus ShareStream(int number, int known);

  void Start();
  // Ends every wait and both threads and closes all tickets.  Memory goes with the last op that still uses it.
  void Stop();

  int table_count() const { return static_cast<int>(tables_.size()); }  // numbered 0, 1, ...
  Table* table(int number) const;    // null: there is none
  Stream* stream(int number) const;  // null: there is none
  // The training stream of a table and its place there; null: it is in none.
  Stream* TrainingStream(int table, int* index) const;
  // The bell of the worker that serves a table; null: it is in no stream.
  layout::Bell* TableWorkerBell(const Table& table) const;
  Lease& lease() { return lease_; }
  Waiter& waiter() { return *waiter_; }
  layout::Bell* TableWorkerBell(const Stream& stream, int index) const {
    return session_.TableWorkerBell(stream.ring().table(index)->worker);
  }

 private:
  bool IsTaken(int number) const { return streams_.count(number) + shared_.count(number) != 0; }
  Pipeline(std::int64_t run, std::unique_ptr<Segment> segment, const Waiter::Settings& settings);

  const std::int64_t run_;
  const int spin_us_;
  const std::unique_ptr<Segment> segment_;
  const SessionView session_;
  Lease lease_;
  std::map<int, std::unique_ptr<Table>> tables_;
  // Streams come while ops, the waiter and the pump use others; none goes before the pipeline does.
  mutable std::mutex mutex_;  // guards streams_, shared_, stopped_ and pump_
  std::map<int, std::unique_ptr<Stream>> streams_;
  std::map<int, int> shared_;  // further numbers of streams
  bool stopped_ = false;
  std::unique_ptr<Waiter> waiter_;
  std::unique_ptr<Pump> pump_;  // null: not started
};

// The pipeline that ops use, or the error that says why there is none.
CoreStatus CurrentPipeline(std::shared_ptr<Pipeline>* pipeline);
// The pipeline under construction or started; null: none.
std::shared_ptr<Pipeline> OwnedPipeline();
void OwnPipeline(std::shared_ptr<Pipeline> pipeline);
// Lets ops see the owned pipeline.
void PublishPipeline();
// Takes it away from the ops and from its owner.
std::shared_ptr<Pipeline> DisownPipeline();

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PIPELINE_H_
