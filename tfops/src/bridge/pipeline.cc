#include "bridge/pipeline.h"

#include <unistd.h>

#include <mutex>
#include <utility>

#include "core/error_codes.gen.h"
#include "core/fork.h"
#include "core/freed_memory.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMaxPoolRows = std::int64_t{1} << 32;

// The Holder is never destroyed, because threads and tensors may still use it at exit.
struct Holder {
  std::mutex mutex;
  std::shared_ptr<Pipeline> owned;
  bool published = false;
  bool was_stopped = false;
  std::string start = "asc.start()";  // calls that start and stop the pipeline, for error messages
  std::string stop = "asc.shutdown()";
  pid_t pid = getpid();
};

Holder& TheHolder() {
  static Holder* const holder = new Holder;
  return *holder;
}

}  // namespace

CoreStatus Pipeline::Make(std::int64_t run, int session_fd, const Waiter::Settings& settings,
                          std::shared_ptr<Pipeline>* pipeline) {
  WatchForks();
  KeepFreedMemory();
  std::unique_ptr<Segment> segment;
  const CoreStatus status = Segment::Map(session_fd, layout::kSessionBytes, "session segment", &segment);
  if (!status.ok()) {
    if (settings.lifeline_fd >= 0) close(settings.lifeline_fd);
    return status;
  }
  pipeline->reset(new Pipeline(run, std::move(segment), settings));
  return CoreStatus();
}

Pipeline::Pipeline(std::int64_t run, std::unique_ptr<Segment> segment, const Waiter::Settings& settings)
    : run_(run),
      spin_us_(settings.spin_us),
      segment_(std::move(segment)),
      session_(segment_->base()),
      budget_(std::make_shared<RingBudget>(session_.session->rings_most)),
      waiter_(new Waiter(session_, settings)) {}

CoreStatus Pipeline::AddTable(int number, const std::string& name, const TableSizes& sizes,
                              std::vector<std::int64_t> padding_keys, const InitialRows& initial, int fd,
                              std::int64_t bytes) {
  int index = -1;
  Table* const before = table(number);
  if (before != nullptr && (TrainingStream(number, &index) != nullptr || before->sizes().dim != sizes.dim ||
                            before->sizes().device_rows != sizes.device_rows)) {
    return Error(Code::kInvalidArgument, "table ", number, " was added already");
  }
  if (sizes.home_rows < 0 || (sizes.home_rows > 0 && sizes.row_floats < sizes.dim)) {
    return Error(Code::kInvalidArgument, "table '", name, "': ", sizes.home_rows, " home rows of ", sizes.row_floats,
                 " floats are not possible (dim ", sizes.dim, ")");
  }
  const bool is_expansion = sizes.device_rows == 0 && sizes.home_rows > 0;
  if (is_expansion && sizes.home_rows > kMaxExpansionRows) {
    return Error(Code::kInvalidArgument, "table '", name, "': ", sizes.home_rows,
                 " rows that are used at home are not "
                 "possible (1 to ",
                 kMaxExpansionRows, ")");
  }
  std::unique_ptr<Segment> segment;
  CoreStatus status = Segment::Map(fd, bytes, Text("segment of table '", name, "'"), &segment);
  if (status.ok()) status = CheckTable(*segment, number, sizes);
  std::shared_ptr<DeviceTable> device;
  if (before != nullptr) {
    device = before->shared_device();  // variables share the memory of the device table
  } else if (status.ok()) {
    status = HostDeviceTable::Make(name, is_expansion ? 1 : sizes.device_rows, sizes.dim, &device);
  }
  if (!status.ok()) return status;
  std::unique_ptr<Table> made(
      new Table(number, name, sizes, initial, std::move(padding_keys), std::move(segment), std::move(device)));
  std::lock_guard<std::mutex> lock(mutex_);
  tables_[number].swap(made);
  if (made != nullptr) replaced_.push_back(std::move(made));
  return CoreStatus();
}

CoreStatus Pipeline::SetPool(int number, const float* pool, std::int64_t rows, std::int64_t dim) {
  Table* const found = table(number);
  if (found == nullptr) return Error(Code::kInvalidArgument, "there is no table ", number);
  if (found->initial().kind != layout::kInitialPool || dim != found->device().dim() || rows < 1 ||
      rows > kMaxPoolRows) {
    return Error(Code::kInvalidArgument, "table '", found->name(), "': a pool of ", rows, " initial rows of ", dim,
                 " values does not fit rows of ", found->device().dim(), " values, of kind ",
                 static_cast<int>(found->initial().kind));
  }
  found->SetPool(std::vector<float>(pool, pool + rows * dim), rows);
  return CoreStatus();
}

CoreStatus Pipeline::CheckFeatures(int number, std::size_t tables, const FeatureList& features) const {
  for (std::size_t i = 0; i < features.tables.size(); ++i) {
    if (features.tables[i] < -1 || features.tables[i] >= static_cast<int>(tables)) {
      return Error(Code::kInvalidArgument, "stream ", number, ": feature '", features.names[i], "' names table index ",
                   features.tables[i], " of ", tables);
    }
  }
  return CoreStatus();
}

CoreStatus Pipeline::AddStream(int number, int channel, int fd, std::int64_t bytes, const std::vector<int>& tables,
                               FeatureList features) {
  for (const int wanted : tables) {
    const Table* const found = table(wanted);
    if (found == nullptr) {
      return Error(Code::kInvalidArgument, "stream ", number, " names table ", wanted, ", which was not added");
    }
    const InitialRows& initial = found->initial();
    if (initial.kind == layout::kInitialPool && initial.pool_rows == 0) {
      return Error(Code::kInvalidArgument, "table ", wanted, " takes its initial rows from a pool, which was not set");
    }
    int index = -1;
    if (channel == layout::kTrain && TrainingStream(wanted, &index) != nullptr) {
      return Error(Code::kInvalidArgument, "stream ", number, " would be the second to train table ", wanted);
    }
  }
  CoreStatus status = CheckFeatures(number, tables.size(), features);
  if (!status.ok()) return status;
  std::unique_ptr<Segment> segment;
  status = Segment::Map(fd, bytes, Text("ring of stream ", number), &segment);
  RingView ring;
  if (status.ok()) status = RingView::Open(*segment, number, channel, tables, &ring);
  if (!status.ok()) return status;
  const bool grows = session_.session->rings_most > 0;
  std::unique_ptr<Stream> stream(
      new Stream(run_, number, std::move(segment), ring, session_, grows ? fd : -1, budget_));
  std::lock_guard<std::mutex> lock(mutex_);
  if (IsTaken(number)) return Error(Code::kInvalidArgument, "stream ", number, " was added already");
  if (stopped_) return Error(Code::kFailedPrecondition, "stream ", number, ": the pipeline was stopped");
  budget_->Note(ring.opened().arena_bytes);
  if (pump_ != nullptr) pump_->Add(stream.get());
  features_[number] = std::move(features);
  streams_[number] = std::move(stream);
  return CoreStatus();
}

CoreStatus Pipeline::ShareStream(int number, int known, FeatureList features) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (IsTaken(number)) return Error(Code::kInvalidArgument, "stream ", number, " was added already");
  if (streams_.count(known) == 0) return Error(Code::kInvalidArgument, "stream ", known, " was not added");
  const CoreStatus status = CheckFeatures(number, static_cast<std::size_t>(streams_[known]->ring().tables()), features);
  if (!status.ok()) return status;
  shared_[number] = known;
  features_[number] = std::move(features);
  return status;
}

CoreStatus Pipeline::Accumulate(int table, std::int64_t steps) {
  int index = -1;
  Stream* const stream = TrainingStream(table, &index);
  if (stream == nullptr || ranks_ != nullptr || steps < 1) {
    return Error(Code::kInvalidArgument, "gradients of table ", table, " cannot be accumulated over ", steps,
                 " batches: it must be trained, by one rank");
  }
  stream->Accumulate(index, steps);
  return CoreStatus();
}

CoreStatus Pipeline::SetRanks(std::unique_ptr<Ranks> ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ranks_ != nullptr || pump_ != nullptr) {
    return Error(Code::kFailedPrecondition, "ranks are set once, before the pipeline starts");
  }
  ranks_ = std::move(ranks);
  return CoreStatus();
}

void Pipeline::SetAverages(int table) {
  std::lock_guard<std::mutex> lock(mutex_);
  averaging_.insert(table);
}

bool Pipeline::averages(int table) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return averaging_.count(table) != 0;
}

CoreStatus Pipeline::AddLocalStream(int number, int ring_number, int fd, std::int64_t bytes,
                                    const std::vector<int>& tables) {
  Stream* const owned = stream(number);
  if (ranks_ == nullptr || owned == nullptr) {
    return Error(Code::kFailedPrecondition, "stream ", number, " of several ranks has no ring for them yet");
  }
  std::unique_ptr<Segment> segment;
  CoreStatus status = Segment::Map(fd, bytes, Text("ring of batches of stream ", number), &segment);
  RingView ring;
  if (status.ok()) status = RingView::Open(*segment, ring_number, layout::kLocal, tables, &ring);
  if (!status.ok()) return status;
  const bool grows = session_.session->rings_most > 0;
  std::unique_ptr<Stream> local(new Stream(run_, number, std::move(segment), ring, session_, grows ? fd : -1, budget_));
  std::unique_ptr<RankedStream> ranked(new RankedStream(number, local.get(), owned, ranks_->rank(), ranks_->size()));
  std::lock_guard<std::mutex> lock(mutex_);
  if (local_.count(number) != 0) return Error(Code::kInvalidArgument, "stream ", number, " has its batches already");
  if (stopped_) return Error(Code::kFailedPrecondition, "stream ", number, ": the pipeline was stopped");
  budget_->Note(ring.opened().arena_bytes);
  if (pump_ != nullptr) pump_->Add(local.get());
  local_[number] = std::move(local);
  return ranks_->streams().Add(std::move(ranked));
}

void Pipeline::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Stream*> streams;
  for (const auto& entry : streams_) streams.push_back(entry.second.get());
  for (const auto& entry : local_) streams.push_back(entry.second.get());
  pump_.reset(new Pump(session_, spin_us_, std::move(streams), reading_spans_));
  pump_->Start();
  waiter_->Start();
}

void Pipeline::Stop() {
  if (InForkedChild()) return;
  Pump* pump;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;  // no stream is added after this
    pump = pump_.get();
  }
  if (ranks_ != nullptr) ranks_->Stop();
  budget_->Stop();
  // Do not hold the lock here, because the waiter's thread may need the lock to end.
  if (pump != nullptr) pump->Stop();
  waiter_->Stop();
  for (const auto& entry : streams_) entry.second->Stop();
  for (const auto& entry : local_) entry.second->Stop();
}

int Pipeline::table_count() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(tables_.size());
}

const FeatureList& Pipeline::features(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return features_.at(number);
}

Table* Pipeline::table(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = tables_.find(number);
  return found == tables_.end() ? nullptr : found->second.get();
}

Stream* Pipeline::stream(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto shared = shared_.find(number);
  const auto found = streams_.find(shared == shared_.end() ? number : shared->second);
  return found == streams_.end() ? nullptr : found->second.get();
}

RankedStream* Pipeline::ranked(int number) const {
  if (ranks_ == nullptr) return nullptr;
  const Stream* const found = stream(number);
  return found == nullptr ? nullptr : ranks_->streams().Find(found->number());
}

Stream* Pipeline::TrainingStream(int table, int* index) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : streams_) {
    *index = entry.second->TableIndex(table);
    if (entry.second->training() && *index >= 0) return entry.second.get();
  }
  return nullptr;
}

layout::Bell* Pipeline::TableWorkerBell(const Table& table) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : streams_) {
    const int index = entry.second->TableIndex(table.number());
    if (index >= 0) return TableWorkerBell(*entry.second, index);
  }
  return nullptr;
}

CoreStatus CurrentPipeline(std::shared_ptr<Pipeline>* pipeline) {
  Holder& holder = TheHolder();
  if (InForkedChild()) {  // checked before locking, because another thread may have held the lock at the fork
    return Error(kE204, "process ", getpid(), " was forked from the trainer (pid ", holder.pid,
                 "), and a pipeline cannot be used from both. Run this op in the trainer, or start the "
                 "child with multiprocessing's 'spawn'");
  }
  std::lock_guard<std::mutex> lock(holder.mutex);
  if (!holder.published) {
    return holder.was_stopped ? Error(kE205, "The pipeline was stopped by ", holder.stop,
                                      ", and graphs that were built before cannot run "
                                      "any more. Nothing was run. Call init(), build the graph again, and call ",
                                      holder.start, " before its first session.run()")
                              : Error(kE205, "The pipeline was not started. Nothing was run. Call ", holder.start,
                                      " after the graph is built and before its first session.run()");
  }
  *pipeline = holder.owned;
  return CoreStatus();
}

void BeginProgram(const char* start, const char* stop) {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  TheHolder().was_stopped = false;
  TheHolder().start = start;
  TheHolder().stop = stop;
}

std::string StartCall() {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  return TheHolder().start;
}

std::shared_ptr<Pipeline> OwnedPipeline() {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  return TheHolder().owned;
}

void OwnPipeline(std::shared_ptr<Pipeline> pipeline) {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  TheHolder().owned = std::move(pipeline);
}

void PublishPipeline() {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  TheHolder().published = true;
}

std::shared_ptr<Pipeline> DisownPipeline() {
  std::lock_guard<std::mutex> lock(TheHolder().mutex);
  std::shared_ptr<Pipeline> owned = std::move(TheHolder().owned);
  TheHolder().owned = nullptr;
  TheHolder().was_stopped = TheHolder().was_stopped || TheHolder().published;
  TheHolder().published = false;
  return owned;
}

}  // namespace ascpipe
