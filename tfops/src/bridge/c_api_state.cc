// C interface to save and restore tables (ascpipe/tf/running/native.py).
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bridge/c_api.h"
#include "bridge/given.h"
#include "bridge/hold.h"
#include "bridge/pipeline.h"
#include "bridge/save.h"

namespace {

using ascpipe::Answer;
using ascpipe::BackgroundSave;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::Given;
using ascpipe::Hold;
using ascpipe::Table;

Given<Hold>& Holds() {
  static Given<Hold>* const holds = new Given<Hold>("hold");
  return *holds;
}

Given<BackgroundSave>& Saves() {
  static Given<BackgroundSave>* const saves = new Given<BackgroundSave>("background save");
  return *saves;
}

CoreStatus FindTable(const Hold& hold, int table, Table** found) {
  *found = hold.pipeline().table(table);
  return *found != nullptr ? CoreStatus() : Error(Code::kInvalidArgument, "there is no table ", table);
}

// Calls `work` with object `number`, and returns the status of `work`. Returns an error if object `number` does not
// exist.
template <typename Of, typename Work>
int On(Given<Of>* all, std::int64_t number, char* err, int err_bytes, const Work& work) {
  std::shared_ptr<Of> found;
  const CoreStatus status = all->Find(number, &found);
  return Answer(status.ok() ? work(found.get()) : status, err, err_bytes);
}

// Calls `work` with a hold and a table of the hold's pipeline, and returns the status of `work`.
template <typename Work>
int OnTable(std::int64_t hold, int table, char* err, int err_bytes, const Work& work) {
  return On(&Holds(), hold, err, err_bytes, [&](Hold* held) {
    Table* found;
    const CoreStatus status = FindTable(*held, table, &found);
    return status.ok() ? work(held, found) : status;
  });
}

}  // namespace

// Creates a hold (bridge/hold.h), and waits for the lease like a step. `alone` is 1 for a restore and 0 for a save.
// Release *hold with asc_hold_release(hold).
ASC_EXPORT int asc_hold_take(int alone, std::int64_t* hold, char* err, int err_bytes) {
  std::shared_ptr<ascpipe::Pipeline> pipeline;
  CoreStatus status = ascpipe::CurrentPipeline(&pipeline);
  std::unique_ptr<Hold> taken;
  if (status.ok()) status = Hold::Take(std::move(pipeline), alone != 0, &taken);
  if (status.ok()) *hold = Holds().Add(std::move(taken));
  return Answer(status, err, err_bytes);
}

// Releases a hold and invalidates all pointers that were obtained through it.
ASC_EXPORT int asc_hold_release(std::int64_t* hold, char* err, int err_bytes) {
  return Answer(Holds().GiveBack(ascpipe::TakeNumber(hold)), err, err_bytes);
}

// Returns the segment of a table. ascpipe/layout/structs.py defines the layout of segments.
ASC_EXPORT int asc_table_memory(std::int64_t hold, int table, void** base, std::int64_t* bytes, char* err,
                                int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold*, Table* found) {
    *base = found->header();
    *bytes = found->bytes();
    return CoreStatus();
  });
}

// Returns state array `index` of a device table. *data is float[rows, width]. Array 0 contains the embeddings. Arrays
// 1, 2, ... contain the optimizer slots. *data is null if array `index` does not exist.
ASC_EXPORT int asc_table_state(std::int64_t hold, int table, int index, float** data, std::int64_t* rows,
                               std::int64_t* width, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold*, Table* found) {
    const ascpipe::StateRows state = found->State(index);
    *data = state.data;
    *rows = found->device().row_count();
    *width = state.width;
    return CoreStatus();
  });
}

// Sets the seed for the initial values of new rows.
ASC_EXPORT int asc_table_set_seed(std::int64_t hold, int table, std::uint64_t seed, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [seed](Hold*, Table* found) {
    found->SetSeed(seed);
    return CoreStatus();
  });
}

// Replaces the pool of initial rows by a copy of `pool`. `pool` is float[rows, dim].
ASC_EXPORT int asc_table_set_pool(std::int64_t hold, int table, const float* pool, std::int64_t rows, std::int64_t dim,
                                  char* err, int err_bytes) {
  return On(&Holds(), hold, err, err_bytes,
            [=](Hold* held) { return held->pipeline().SetPool(table, pool, rows, dim); });
}

// Creates the missing optimizer slots of a table. Slot i has the width widths[i] and the initial value initial[i].
ASC_EXPORT int asc_table_give_slots(std::int64_t hold, int table, int count, const int* widths, const float* initial,
                                    char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold*, Table* found) {
    found->GiveSlots({std::vector<float>(initial, initial + count), std::vector<int>(widths, widths + count)});
    return CoreStatus();
  });
}

// Executes a cut of a table on request of rank 0. A cut of kind 2 sets a threshold, and a cut of kind 3 evicts keys.
ASC_EXPORT int asc_hold_cut(std::int64_t hold, int table, int kind, std::int64_t argument, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) {
    return held->Cut(found, static_cast<ascpipe::layout::CutKind>(kind), argument);
  });
}

// Freezes a table, or unfreezes it if `frozen` is 0.
ASC_EXPORT int asc_table_freeze(std::int64_t hold, int table, int frozen, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes,
                 [=](Hold* held, Table* found) { return held->Freeze(found, frozen == 1); });
}

ASC_EXPORT int asc_load_begin(std::int64_t hold, int table, std::int64_t entries, std::int64_t rows, char* err,
                              int err_bytes) {
  return OnTable(hold, table, err, err_bytes,
                 [=](Hold* held, Table* found) { return held->BeginLoad(found, entries, rows); });
}

// Writes `count` entries, starting with entry `first`. Each array has `count` values. If `rows` is 1, entry i gets row
// i.
ASC_EXPORT int asc_load_entries(std::int64_t hold, int table, std::int64_t first, std::int64_t count,
                                const std::int64_t* keys, const std::int64_t* counts, const std::int64_t* timestamps,
                                int rows, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) {
    return held->WriteEntries(found, first, {count, keys, counts, timestamps}, rows == 1);
  });
}

// Keeps the row locations in entries valid until asc_disk_end is called.
ASC_EXPORT int asc_disk_begin(std::int64_t hold, int table, std::int64_t* epoch, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) {
    *epoch = held->BeginReading(found);
    return CoreStatus();
  });
}

ASC_EXPORT int asc_disk_end(std::int64_t hold, int table, std::int64_t* epoch, char* err, int err_bytes) {
  const std::int64_t ended = ascpipe::TakeNumber(epoch);
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) {
    held->EndReading(found, ended);
    return CoreStatus();
  });
}

// Reads rows on disk if `writes` is 0, or writes rows to disk if `writes` is 1. `rows` is float[count, row floats].
// Only loads may write rows.
ASC_EXPORT int asc_disk_rows(std::int64_t hold, int table, int writes, std::int64_t count, const std::int64_t* keys,
                             const std::int32_t* slots, const std::int32_t* generations, float* rows, char* err,
                             int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) {
    std::vector<ascpipe::DiskPlace> places(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      places[static_cast<std::size_t>(i)] = {keys[i], slots[i], static_cast<std::uint32_t>(generations[i])};
    }
    return held->MoveRows(found, writes == 1 ? ascpipe::layout::kRequestWrite : ascpipe::layout::kRequestRead,
                          places.data(), count, rows);
  });
}

ASC_EXPORT int asc_load_keyed(std::int64_t hold, int table, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes, [=](Hold* held, Table* found) { return held->EntriesWritten(found); });
}

ASC_EXPORT int asc_load_end(std::int64_t hold, int table, std::int64_t entries, std::int64_t time,
                            std::int64_t threshold, std::int64_t counting, char* err, int err_bytes) {
  return OnTable(hold, table, err, err_bytes,
                 [=](Hold* held, Table* found) { return held->EndLoad(found, {entries, time, threshold, counting}); });
}

// Sets *trained to the number of batches that a stream has trained, including the batches before a restore.
ASC_EXPORT int asc_stream_trained(std::int64_t hold, int stream, std::int64_t* trained, char* err, int err_bytes) {
  return On(&Holds(), hold, err, err_bytes, [=](Hold* held) {
    const ascpipe::Stream* const found = held->pipeline().stream(stream);
    if (found == nullptr) return Error(Code::kInvalidArgument, "there is no stream ", stream);
    *trained = found->TrainedBatches();
    return CoreStatus();
  });
}

// Sets the four elements of `position` to the dataset position after the last batch that a stream has trained: source,
// pass, epoch and consumed records. The source is 0 if there is no position.
ASC_EXPORT int asc_stream_position(std::int64_t hold, int stream, std::int64_t* position, char* err, int err_bytes) {
  return On(&Holds(), hold, err, err_bytes, [=](Hold* held) {
    const ascpipe::Stream* const found = held->pipeline().stream(stream);
    if (found == nullptr) return Error(Code::kInvalidArgument, "there is no stream ", stream);
    const ascpipe::ReadPosition at = found->TrainedPosition();
    position[0] = at.source;
    position[1] = at.pass;
    position[2] = at.epoch;
    position[3] = at.consumed;
    return CoreStatus();
  });
}

// Begins a snapshot of the entries and home rows of `tables`. The snapshot lasts until asc_save_end. `log_bytes` is the
// size of the memory for images of home rows that training changes during the save. Training waits while the memory for
// images is full.
ASC_EXPORT int asc_save_begin(std::int64_t hold, int count, const int* tables, std::int64_t log_bytes,
                              std::int64_t* save, char* err, int err_bytes) {
  return On(&Holds(), hold, err, err_bytes, [=](Hold* held) {
    std::vector<Table*> found(static_cast<std::size_t>(count));
    CoreStatus status;
    for (int i = 0; status.ok() && i < count; ++i) status = FindTable(*held, tables[i], &found[i]);
    std::shared_ptr<BackgroundSave> begun;
    if (status.ok()) status = BackgroundSave::Begin(held->shared_pipeline(), found, log_bytes, &begun);
    if (status.ok()) *save = Saves().Add(std::move(begun));
    return status;
  });
}

// Returns a state array of the snapshot, like asc_table_state. *data is invalid after the save.
ASC_EXPORT int asc_save_device(std::int64_t save, int table, int index, float** data, std::int64_t* width, char* err,
                               int err_bytes) {
  ascpipe::StateRows copy = ascpipe::StateRows();
  const int answer =
      On(&Saves(), save, err, err_bytes, [&](BackgroundSave* found) { return found->Device(table, index, &copy); });
  *data = copy.data;
  *width = copy.width;
  return answer;
}

// Copies the entries (ascpipe/layout/structs.py) that were in use when the save began.
ASC_EXPORT int asc_save_entries(std::int64_t save, int table, void* entries, std::int64_t count, char* err,
                                int err_bytes) {
  return On(&Saves(), save, err, err_bytes, [=](BackgroundSave* found) {
    return found->ReadEntries(table, static_cast<ascpipe::layout::Entry*>(entries), count);
  });
}

// Declares the rows that the save will read. Only declared rows need images. `homes` is int32[count] and contains
// indexes of home rows. If the table has rows on disk, `homes` contains indexes of entries instead.
ASC_EXPORT int asc_save_want(std::int64_t save, int table, const std::int32_t* homes, std::int64_t count, char* err,
                             int err_bytes) {
  return On(&Saves(), save, err, err_bytes,
            [=](BackgroundSave* found) { return found->WantRows(table, homes, count); });
}

// Copies the row with index homes[i] to out[i]. `homes` has the same meaning as in asc_save_want. `out` is float[count,
// row floats]. Read each row only once.
ASC_EXPORT int asc_save_rows(std::int64_t save, int table, const std::int32_t* homes, std::int64_t count, float* out,
                             char* err, int err_bytes) {
  return On(&Saves(), save, err, err_bytes,
            [=](BackgroundSave* found) { return found->ReadRows(table, homes, count, out); });
}

ASC_EXPORT int asc_save_end(std::int64_t* save, char* err, int err_bytes) {
  return Answer(Saves().GiveBack(ascpipe::TakeNumber(save)), err, err_bytes);
}
