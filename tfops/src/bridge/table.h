// Table of the trainer process: its rows, the initial values of new rows, and the session that trains the table.
#ifndef ASCPIPE_BRIDGE_TABLE_H_
#define ASCPIPE_BRIDGE_TABLE_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bridge/instance_allocator.h"
#include "core/disk_reads.h"
#include "core/initial_rows.h"
#include "core/private_memory.h"
#include "core/reader_epochs.h"
#include "core/row_log.h"
#include "core/row_moves.h"
#include "core/segment.h"
#include "core/table_instance.h"
#include "core/waiter.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Optimizer slots of a table, as a plan op declares them.
struct OptimizerSlots {
  std::vector<float> initial;             // initial value of each slot
  std::vector<tensorflow::int32> widths;  // widths of slots that are in home rows or have no variable yet
};

class Table {
 public:
  // `sizes` contains the sizes in the header of the segment.
  Table(int number, std::string name, const TableSizes& sizes, const InitialRows& initial,
        std::vector<std::int64_t> padding_keys, std::unique_ptr<Segment> segment, std::shared_ptr<DeviceTable> device);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  int number() const { return number_; }
  const std::string& name() const { return name_; }
  const InitialRows& initial() const { return initial_; }
  // Replaces the pool of initial rows. `pool` is float[rows, dim]. Call SetPool before the pipeline starts, or between
  // steps.
  void SetPool(std::vector<float> pool, std::int64_t rows) {
    initial_.pool = std::move(pool);
    initial_.pool_rows = rows;
  }
  // Returns the padding keys in ascending order, without duplicates.
  const std::vector<std::int64_t>& padding_keys() const { return padding_keys_; }
  // Freezes or unfreezes the table. A step that claims a plan while the table is frozen reads rows but does not update
  // rows. Call Freeze between steps.
  void Freeze(bool frozen) { is_frozen_.store(frozen); }
  bool is_frozen() const { return is_frozen_.load(); }
  // Sets the seed for the initial values of new rows. Call SetSeed while no step runs, because steps read the seed.
  void SetSeed(std::uint64_t seed) { initial_.seed = seed; }
  const DeviceTable& device() const { return *device_; }
  const std::shared_ptr<DeviceTable>& shared_device() const { return device_; }
  const TableSizes& sizes() const { return sizes_; }
  // Returns true for an expansion table, which has only home rows. The device table of an expansion table has one row
  // that belongs to no key, because the variable needs a row.
  bool is_expansion() const { return sizes_.device_rows == 0; }
  // Returns the home rows whose memory is currently allocated.
  HomeRows home() const;
  // Returns the lowest code that the table worker may store in `slots` when it answers an evaluation.
  std::int64_t LowestAnswer() const { return is_on_disk() ? layout::kSlotDisk : LowestCode(home().ready); }
  // Returns an error if the widths of the arrays in `state` do not add up to the width of a home row.
  tensorflow::Status FitsHome(const std::vector<StateRows>& state) const;
  // Returns true if the table has rows on disk. A table with rows on disk has two readers: 0 for evaluations, 1 for
  // saves and loads.
  bool is_on_disk() const { return disk_ != nullptr; }
  // Sets the directories of the row files, for error messages. Call SetDirectories before a step uses the table.
  void SetDirectories(std::string directories) { directories_ = std::move(directories); }
  const std::string& directories() const { return directories_; }
  std::int64_t most_disk_rows() const { return disk_rows_; }  // maximum at home and on disk; 0: no rows on disk
  bool AwaitsRows(std::int64_t frame) const;  // returns true if the plan of a training frame waits for rows from disk
  ReaderEpochs& epochs(int reader) { return *epochs_[reader]; }
  DiskReads& disk_reads(int reader) { return *disk_reads_[reader]; }
  // Makes `owner` the exclusive user of disk_reads. Returns false if disk_reads has another owner, or if the disk
  // worker has not finished the requests of the previous owner.
  bool TakeDiskReads(int reader, const void* owner);
  void LeaveDiskReads(int reader, const void* owner);

  layout::Table* header() const { return reinterpret_cast<layout::Table*>(segment_->base()); }
  // Returns the private copy of the header that was made when the table was created. The header in the segment is not
  // read again, because any process of the session may overwrite the header.
  const layout::Table& opened() const { return opened_; }
  layout::Entry* entries() const { return reinterpret_cast<layout::Entry*>(segment_->base() + opened_.entries_offset); }

  std::int64_t bytes() const { return segment_->bytes(); }
  // Returns a state array of the device table. Array 0 contains the rows, and array i contains optimizer slot i - 1, as
  // set by the last call of Attach or GiveSlots. The result has no data if the slot does not exist yet.
  StateRows State(int index);

  tensorflow::Tensor RowsTensor() const { return allocator_->MakeTensor(); }

  // Returns the number of times that the initializers of the table have run. NoteStart increments this number.
  std::int64_t starts() const { return starts_.load(); }
  void NoteStart() { starts_.fetch_add(1); }

  // Records that the session of `ctx` trains the table. Returns an error if a newer session trains the table.
  tensorflow::Status Drive(tensorflow::OpKernelContext* ctx);

  // Verifies that input `first` is a variable for the rows of this table, and that the following inputs are the
  // optimizer slots of this variable. Uninitialized variables get tensors in the memory of the table. *state receives
  // the state arrays. The state arrays of an expansion table are in the home rows.
  tensorflow::Status Attach(tensorflow::OpKernelContext* ctx, int first, const OptimizerSlots& slots,
                            std::vector<StateRows>* state);

  // Creates the optimizer slots that do not exist yet. When a session attaches its variables, the given slots replace
  // the values of the session's initializers.
  void GiveSlots(const OptimizerSlots& slots);

  // Returns memory for a copy of a state array as float[device rows, width], or null if there is not enough memory. The
  // memory is kept for the next save, because allocating memory takes longer than copying an array. Only one save may
  // use the memory at a time.
  float* CopyMemory(int index, std::int64_t width);

  // Sets the log that receives images of home rows before the rows change. If `log` is null, no more images are stored.
  void KeepRows(std::shared_ptr<RowLog> log);
  std::shared_ptr<RowLog> row_log();
  // Returns true if a background save needs the table's keys: workers move rows during the save, and the save finds the
  // rows through their entries. No key may be removed while IsBeingSaved returns true.
  bool IsBeingSaved() { return is_on_disk() && row_log() != nullptr; }

  // Handles that contain StepOf(ticket) are valid between BeginHandles and EndHandles. A claim calls BeginHandles, and
  // the end of the step calls EndHandles.
  void BeginHandles(std::int64_t ticket) { step_.store(StepOf(ticket)); }
  void EndHandles() { step_.store(0); }
  int step() const { return step_.load(); }  // 0: no handle is valid

  // The pending wait that has published its ticket as `wanted`, or null. Only the waiter thread may use this member.
  Wait* wanter = nullptr;

 private:
  tensorflow::Status AttachRows(tensorflow::OpKernelContext* ctx, int input, StateRows* rows);
  tensorflow::Status AttachSlot(tensorflow::OpKernelContext* ctx, int input, std::size_t slot,
                                const OptimizerSlots& slots, StateRows* rows);
  std::vector<StateRows> StateAtHome(const OptimizerSlots& slots) const;

  const int number_;
  const std::string name_;
  const TableSizes sizes_;
  InitialRows initial_;
  const std::vector<std::int64_t> padding_keys_;
  std::string directories_;
  const std::unique_ptr<Segment> segment_;
  const layout::Table opened_;
  float* const home_;              // null: no home rows
  layout::DiskTable* const disk_;  // null: no rows on disk
  const std::int64_t disk_rows_;
  const std::shared_ptr<DeviceTable> device_;
  InstanceAllocator* const allocator_;
  std::atomic<int> step_{0};
  std::atomic<bool> is_frozen_{false};
  std::atomic<std::int64_t> starts_{0};
  std::unique_ptr<ReaderEpochs> epochs_[layout::kDiskReaders];
  std::unique_ptr<DiskReads> disk_reads_[layout::kDiskReaders];

  std::mutex mutex_;
  const void* owners_[layout::kDiskReaders] = {};  // owners of the elements of disk_reads_
  struct CopyBuffer {
    PrivateArray<float> rows;
    std::int64_t width = 0;
  };
  std::map<int, CopyBuffer> copies_;       // by index of the state array
  std::shared_ptr<RowLog> row_log_;        // log of the running background save
  tensorflow::int64 driver_ = 0;           // session that trains this table
  std::vector<tensorflow::Tensor> slots_;  // optimizer slots as last attached or given; a new session receives them
  std::vector<bool> given_;                // true: a slot of GiveSlots that no session has attached since
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TABLE_H_
