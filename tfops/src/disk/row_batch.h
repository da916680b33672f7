// A batch of rows to read or write, split into operations on whole blocks.
#ifndef ASCPIPE_DISK_ROW_BATCH_H_
#define ASCPIPE_DISK_ROW_BATCH_H_

#include <cstdint>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "disk/row_file.h"

namespace ascpipe {

enum class BatchKind { kRead, kWrite };

// Operation on adjacent blocks: one read, one write, or a read-modify-write of one block.
struct BlockOperation {
  std::int64_t begin, end;  // range of the batch's requests, sorted by slot
  std::int64_t first_block;
  std::int64_t block_count;
  bool keeps;  // a write must keep other rows of the block
};

// Statistics of one operation.
struct OperationFigures {
  std::int64_t read_ns = 0, write_ns = 0;  // 0: not done
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t rows_read = 0, rows_written = 0, rows_failed = 0, rows_damaged = 0;
  std::int64_t damaged_neighbours = 0;  // torn slots that were kept
};

// Guards the access of operations to the caller's memory.
class CallersMemory {
 public:
  virtual ~CallersMemory() = default;
  // Returns false if the operation was abandoned and must not touch the caller's memory.
  virtual bool Enter() = 0;
  virtual void Leave() = 0;
};

class RowBatch {
 public:
  // `asked` and its arrays must stay valid until the batch has finished.
  RowBatch(RowFile* file, BatchKind kind, const DiskBatch& asked) : file_(file), kind_(kind), asked_(asked) {}

  // Validates all requests and builds the operations. Returns INVALID_ARGUMENT if a slot is outside the file or is
  // written twice.
  CoreStatus Prepare();

  BatchKind kind() const { return kind_; }
  const std::vector<BlockOperation>& operations() const { return operations_; }

  // Executes an operation and stores the results of its requests: 0, an errno, or a Damage. `buffer` is
  // uint8[kMostWriteBytes] and page-aligned. Each thread must pass a separate buffer.
  OperationFigures Run(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer) const;

  // Store sets the result of all requests of an operation. FailGood sets the result of each request of the batch that
  // currently has the result 0.
  void Store(const BlockOperation& operation, std::int32_t result) const;
  void FailGood(std::int32_t result) const;

  // Marks the requests of one operation, or of all operations, as DONE or FAILED. A request with an error becomes
  // FAILED, and its error is stored. Does nothing if `asked.requests` is null.
  void EndRequests(const BlockOperation& operation) const;
  void EndRequests() const;
  // Rings the bell of the batch if the batch has one.
  void RingBell() const;

 private:
  struct Place {
    std::int64_t slot;
    std::int64_t request;  // index in the arrays
  };

  void EndRequest(std::int64_t i) const;
  bool Keeps(std::int64_t begin, std::int64_t end) const;
  void Append(std::int64_t begin, std::int64_t end);
  void RunRead(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer,
               OperationFigures* figures) const;
  void RunWrite(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer,
                OperationFigures* figures) const;
  int TimedRead(const BlockOperation& operation, std::uint8_t* buffer, OperationFigures* figures) const;
  void SealAll(const BlockOperation& operation, std::uint8_t* buffer, OperationFigures* figures) const;

  RowFile* const file_;
  const BatchKind kind_;
  const DiskBatch asked_;
  std::vector<Place> order_;  // sorted by slot
  std::vector<BlockOperation> operations_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_BATCH_H_
