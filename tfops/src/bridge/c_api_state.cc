// What ascpipe/tf/native.py calls to save and restore tables: holds, and where the state of a table lies.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "bridge/c_api.h"
#include "bridge/hold.h"
#include "bridge/pipeline.h"
#include "core/ticket.h"

namespace {

using ascpipe::Answer;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::Hold;
using ascpipe::Table;

// Never destroyed: at exit a thread may still have one.
struct Holds {
  std::mutex mutex;
  std::int64_t next = 1;
  std::map<std::int64_t, std::shared_ptr<Hold>> taken;
};

Holds& TheHolds() {
  static Holds* const holds = new Holds;
  return *holds;
}

CoreStatus FindHold(std::int64_t number, std::shared_ptr<Hold>* hold) {
  if (!ascpipe::InForkedChild()) {  // before the lock: the fork may have happened while another thread had it
    std::lock_guard<std::mutex> lock(TheHolds().mutex);
    const auto found = TheHolds().taken.find(number);
    if (found != TheHolds().taken.end()) {
      *hold = found->second;
      return CoreStatus();
    }
  }
  return Error(Code::kFailedPrecondition, "hold ", number, " is not taken, or was given back");
}

CoreStatus FindTable(std::int64_t number, int table, std::shared_ptr<Hold>* hold, Table** found) {
  const CoreStatus status = FindHold(number, hold);
  if (!status.ok()) return status;
  *found = (*hold)->pipeline().table(table);
  return *found != nullptr ? CoreStatus() : Error(Code::kInvalidArgument, "there is no table ", table);
}

}  // namespace

// Waits as a step waits; `alone`: 1 to restore, 0 to save.  *hold is given back by asc_hold_release.
ASC_EXPORT int asc_hold_take(int alone, std::int64_t* hold, char* err, int err_bytes) {
  std::shared_ptr<ascpipe::Pipeline> pipeline;
  CoreStatus status = ascpipe::CurrentPipeline(&pipeline);
  std::unique_ptr<Hold> taken;
  if (status.ok()) status = Hold::Take(std::move(pipeline), alone != 0, &taken);
  if (status.ok()) {
    std::lock_guard<std::mutex> lock(TheHolds().mutex);
    *hold = TheHolds().next++;
    TheHolds().taken[*hold] = std::move(taken);
  }
  return Answer(status, err, err_bytes);
}

// Pointers that were asked for with the hold are not to be used after it.
ASC_EXPORT int asc_hold_release(std::int64_t hold, char* err, int err_bytes) {
  std::shared_ptr<Hold> found;
  const CoreStatus status = FindHold(hold, &found);
  if (status.ok()) {
    std::lock_guard<std::mutex> lock(TheHolds().mutex);
    TheHolds().taken.erase(hold);
  }
  return Answer(status, err, err_bytes);
}

// The segment of a table, as ascpipe/shm/layout.py describes it.
ASC_EXPORT int asc_table_memory(std::int64_t hold, int table, void** base, std::int64_t* bytes, char* err,
                                int err_bytes) {
  std::shared_ptr<Hold> held;
  Table* found;
  const CoreStatus status = FindTable(hold, table, &held, &found);
  if (status.ok()) {
    *base = found->header();
    *bytes = found->bytes();
  }
  return Answer(status, err, err_bytes);
}

// State array `index` of a table on the device, float[rows, width]: 0 its rows, then each optimizer slot that a
// session has attached.  *data is null where there is none.
ASC_EXPORT int asc_table_state(std::int64_t hold, int table, int index, float** data, std::int64_t* rows,
                               std::int64_t* width, char* err, int err_bytes) {
  std::shared_ptr<Hold> held;
  Table* found;
  const CoreStatus status = FindTable(hold, table, &held, &found);
  if (status.ok()) {
    const ascpipe::StateRows state = found->State(index);
    *data = state.data;
    *rows = found->device().row_count();
    *width = state.width;
  }
  return Answer(status, err, err_bytes);
}

// From now on rows of new keys come from this seed.
ASC_EXPORT int asc_table_set_seed(std::int64_t hold, int table, std::uint64_t seed, char* err, int err_bytes) {
  std::shared_ptr<Hold> held;
  Table* found;
  const CoreStatus status = FindTable(hold, table, &held, &found);
  if (status.ok()) found->SetSeed(seed);
  return Answer(status, err, err_bytes);
}

// From now on rows of new keys are picked from this pool, float[rows, dim], which is copied.
ASC_EXPORT int asc_table_set_pool(std::int64_t hold, int table, const float* pool, std::int64_t rows, std::int64_t dim,
                                  char* err, int err_bytes) {
  std::shared_ptr<Hold> held;
  CoreStatus status = FindHold(hold, &held);
  if (status.ok()) status = held->pipeline().SetPool(table, pool, rows, dim);
  return Answer(status, err, err_bytes);
}

ASC_EXPORT int asc_load_begin(std::int64_t hold, int table, std::int64_t entries, std::int64_t rows, char* err,
                              int err_bytes) {
  std::shared_ptr<Hold> held;
  Table* found;
  CoreStatus status = FindTable(hold, table, &held, &found);
  if (status.ok()) status = held->BeginLoad(found, entries, rows);
  return Answer(status, err, err_bytes);
}

ASC_EXPORT int asc_load_end(std::int64_t hold, int table, std::int64_t entries, std::int64_t time,
                            std::int64_t threshold, std::int64_t counting, char* err, int err_bytes) {
  std::shared_ptr<Hold> held;
  Table* found;
  CoreStatus status = FindTable(hold, table, &held, &found);
  if (status.ok()) status = held->EndLoad(found, {entries, time, threshold, counting});
  return Answer(status, err, err_bytes);
}

// Batches of a training stream that some table has claimed since the pipeline began.
ASC_EXPORT int asc_stream_trained(std::int64_t hold, int stream, std::int64_t* trained, char* err, int err_bytes) {
  std::shared_ptr<Hold> held;
  CoreStatus status = FindHold(hold, &held);
  const ascpipe::Stream* const found = status.ok() ? held->pipeline().stream(stream) : nullptr;
  if (status.ok() && found == nullptr) status = Error(Code::kInvalidArgument, "there is no stream ", stream);
  if (status.ok()) *trained = ascpipe::LoadAcquire(&found->ring().header()->trained);
  return Answer(status, err, err_bytes);
}
