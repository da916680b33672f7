// A table of the process: its rows, how new rows begin, and which session drives it.
#ifndef ASCPIPE_BRIDGE_TABLE_H_
#define ASCPIPE_BRIDGE_TABLE_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bridge/instance_allocator.h"
#include "core/initial_rows.h"
#include "core/row_moves.h"
#include "core/segment.h"
#include "core/table_instance.h"
#include "core/waiter.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

class Table {
 public:
  // `sizes` are those of the segment's header.
  Table(int number, std::string name, const TableSizes& sizes, const InitialRows& initial,
        std::vector<std::int64_t> padding_keys, std::unique_ptr<Segment> segment,
        std::shared_ptr<DeviceTable> device);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  int number() const { return number_; }
  const std::string& name() const { return name_; }
  const InitialRows& initial() const { return initial_; }
  // Where initial rows come from a pool: float[rows, dim].  Before the pipeline starts only.
  void SetPool(std::vector<float> pool, std::int64_t rows) {
    initial_.pool = std::move(pool);
    initial_.pool_rows = rows;
  }
  // Ascending, without repeats.
  const std::vector<std::int64_t>& padding_keys() const { return padding_keys_; }
  const DeviceTable& device() const { return *device_; }
  const TableSizes& sizes() const { return sizes_; }
  // As many as have memory now.
  HomeRows home() const;
  // Whether a home row has room for just these state arrays.
  tensorflow::Status FitsHome(const std::vector<StateRows>& state) const;
  layout::Table* header() const { return reinterpret_cast<layout::Table*>(segment_->base()); }

  tensorflow::Tensor RowsTensor() const { return allocator_->MakeTensor(); }

  // The session that has trained last drives the table; one that it superseded is refused.
  tensorflow::Status Drive(tensorflow::OpKernelContext* ctx);

  // Makes sure that input `first` is a variable over the rows of this table, and that the following inputs
  // are its optimizer slots; attaches those that are not initialised.  `slot_initial` has a value per slot.
  tensorflow::Status Attach(tensorflow::OpKernelContext* ctx, int first, const std::vector<float>& slot_initial,
                            std::vector<StateRows>* state);

  // The wait that has told the table worker which ticket it wants; the waiter thread's.
  Wait* wanter = nullptr;

 private:
  tensorflow::Status AttachRows(tensorflow::OpKernelContext* ctx, int input, StateRows* rows);
  tensorflow::Status AttachSlot(tensorflow::OpKernelContext* ctx, int input, std::size_t slot, StateRows* rows);

  const int number_;
  const std::string name_;
  const TableSizes sizes_;
  InitialRows initial_;
  const std::vector<std::int64_t> padding_keys_;
  const std::unique_ptr<Segment> segment_;
  float* const home_;  // null: no home rows
  const std::shared_ptr<DeviceTable> device_;
  InstanceAllocator* const allocator_;

  std::mutex mutex_;
  tensorflow::int64 driver_ = 0;  // session that trains this table
  std::vector<tensorflow::Tensor> slots_;  // optimizer slots as last seen: a session that is opened anew gets them
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TABLE_H_
