// The pipeline of the process. ascpipe/tf/running/native.py sets up the pipeline, and the ops use the pipeline.
#ifndef ASCPIPE_BRIDGE_PIPELINE_H_
#define ASCPIPE_BRIDGE_PIPELINE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "bridge/ranks.h"
#include "bridge/table.h"
#include "core/core_status.h"
#include "core/lease.h"
#include "core/pump.h"
#include "core/segment.h"
#include "core/span_ring.h"
#include "core/stream.h"
#include "core/waiter.h"

namespace ascpipe {

// Features of an insert function, one per input of the function's AscSubmit.
struct FeatureList {
  std::vector<int> tables;         // index of the feature's table in the ring; -1: no table
  std::vector<std::string> names;  // for error messages

  int Of(int table_index) const { return static_cast<int>(std::count(tables.begin(), tables.end(), table_index)); }
};

class Pipeline {
 public:
  static CoreStatus Make(std::int64_t run, int session_fd, const Waiter::Settings& settings,
                         std::shared_ptr<Pipeline>* pipeline);
  ~Pipeline() { Stop(); }

  // Adds a table. AddTable may be called after Start. If an untrained table has the same number, the new table replaces
  // it and reuses its device rows. The pipeline keeps a replaced table alive, because steps may still use it. The rows
  // of `padding_keys` are never updated.
  CoreStatus AddTable(int number, const std::string& name, const TableSizes& sizes,
                      std::vector<std::int64_t> padding_keys, const InitialRows& initial, int fd, std::int64_t bytes);
  // Replaces the pool of initial rows by a copy of `pool`. `pool` is float[rows, dim]. Call SetPool before the table's
  // streams are added. To replace the pool later, call SetPool between two steps.
  CoreStatus SetPool(int number, const float* pool, std::int64_t rows, std::int64_t dim);
  // Adds a stream. AddStream may be called after Start; the stream then accepts batches immediately. A table belongs
  // to at most one training stream.
  CoreStatus AddStream(int number, int channel, int fd, std::int64_t bytes, const std::vector<int>& tables,
                       FeatureList features);
  // Makes `number` an alias of stream `known`. The alias has a separate list of features.
  CoreStatus ShareStream(int number, int known, FeatureList features);

  // Accumulates the gradients of a table over `steps` >= 1 batches before each update, starting with the next batch.
  CoreStatus Accumulate(int table, std::int64_t steps);

  // Sets the ring that receives a span for each batch of training data that the process reads. Call RecordReading
  // before Start.
  void RecordReading(std::shared_ptr<SpanRing<layout::ReadingSpan>> spans) { reading_spans_ = std::move(spans); }
  // Sets the ranks of a program with several ranks. Call SetRanks before Start.
  CoreStatus SetRanks(std::unique_ptr<Ranks> ranks);
  // Averages the gradients of a table over ranks instead of summing them.
  void SetAverages(int table);
  bool averages(int table) const;
  // Adds the local ring of a stream, which contains this rank's own batches. The ring of AddStream contains the keys
  // that all ranks request from this rank.
  CoreStatus AddLocalStream(int number, int ring_number, int fd, std::int64_t bytes, const std::vector<int>& tables);

  void Start();
  // Ends all waits, the waiter and the pump, and closes all tickets. The pipeline's memory is freed when the last op
  // that uses the pipeline has ended.
  void Stop();

  int table_count() const;           // numbered 0, 1, ...
  Table* table(int number) const;    // null: there is none
  Stream* stream(int number) const;  // null: there is none
  // Returns the features of insert function `number`. The stream of the insert function must exist.
  const FeatureList& features(int number) const;
  // Returns the training stream of a table, or null if no stream trains the table. *index receives the table's index in
  // the stream.
  Stream* TrainingStream(int table, int* index) const;
  // Returns the bell of the worker that serves a table, or null if the table is in no stream.
  layout::Bell* TableWorkerBell(const Table& table) const;
  layout::Bell* DiskWorkerBell() const { return session_.DiskWorkerBell(); }
  // Returns the ranks, or null if there is only one rank.
  Ranks* ranks() const { return ranks_.get(); }
  // Returns the RankedStream of a stream, or null if there is only one rank.
  RankedStream* ranked(int number) const;
  // Returns the statistics of exchanges between ranks, which `ascpipe status` shows.
  layout::Exchanges* exchanges() const { return session_.exchanges; }
  Lease& lease() { return lease_; }
  Waiter& waiter() { return *waiter_; }
  void RingTableWorker(const RingView& ring, int index) const { Ring(session_.TableWorkerBell(ring.worker(index))); }
  layout::Bell* TableWorkerBell(const Stream& stream, int index) const {
    return session_.TableWorkerBell(stream.ring().worker(index));
  }

 private:
  bool IsTaken(int number) const { return streams_.count(number) + shared_.count(number) != 0; }
  CoreStatus CheckFeatures(int number, std::size_t tables, const FeatureList& features) const;
  Pipeline(std::int64_t run, std::unique_ptr<Segment> segment, const Waiter::Settings& settings);

  const std::int64_t run_;
  const int spin_us_;
  const std::unique_ptr<Segment> segment_;
  const SessionView session_;
  const std::shared_ptr<RingBudget> budget_;
  Lease lease_;
  // Tables and streams may be added while ops, the waiter and the pump run. No table or stream is removed before the
  // pipeline ends.
  mutable std::mutex mutex_;  // guards the members below
  std::map<int, std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Table>> replaced_;
  std::map<int, std::unique_ptr<Stream>> streams_;
  std::map<int, int> shared_;                     // aliases of streams
  std::map<int, std::unique_ptr<Stream>> local_;  // by number of the stream in streams_ that has the owned ring
  std::map<int, FeatureList> features_;
  std::set<int> averaging_;  // numbers of the tables whose gradients are averaged
  bool stopped_ = false;
  std::unique_ptr<Ranks> ranks_;  // set before ops see the pipeline
  std::shared_ptr<SpanRing<layout::ReadingSpan>> reading_spans_;
  std::unique_ptr<Waiter> waiter_;
  std::unique_ptr<Pump> pump_;  // null: not started
};

// Returns the pipeline that ops use, or an error if there is none.
CoreStatus CurrentPipeline(std::shared_ptr<Pipeline>* pipeline);
// Sets the names of the calls that start and stop the pipeline. Error messages contain these names. `init` calls
// BeginProgram.
void BeginProgram(const char* start, const char* stop);
// Returns the name of the call that starts the pipeline.
std::string StartCall();
// Returns the pipeline under construction or the started pipeline, or null.
std::shared_ptr<Pipeline> OwnedPipeline();
void OwnPipeline(std::shared_ptr<Pipeline> pipeline);
// Makes the owned pipeline visible to ops.
void PublishPipeline();
// Releases the owner's reference, hides the pipeline from ops, and returns the pipeline.
std::shared_ptr<Pipeline> DisownPipeline();

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PIPELINE_H_
