// A batch of rows to read or write, taken apart into operations on whole blocks.
#ifndef ASCPIPE_DISK_ROW_BATCH_H_
#define ASCPIPE_DISK_ROW_BATCH_H_

#include <cstdint>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "disk/row_file.h"

namespace ascpipe {

enum class BatchKind { kRead, kWrite };

// Operation on adjacent blocks, by one read, or one write, or, for one block, by both.
struct BlockOperation {
  std::int64_t begin, end;  // of the batch's order
  std::int64_t first_block;
  std::int64_t block_count;
  bool keeps;  // of a write: the block has other rows
};

// What became of the blocks of an operation.
struct OperationFigures {
  std::int64_t read_ns = 0, write_ns = 0;  // 0: there was none
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t rows_read = 0, rows_written = 0, rows_failed = 0, rows_damaged = 0;
  std::int64_t damaged_neighbours = 0;  // slots that were kept and are torn
};

// Lets an operation at the memory of the caller.
class CallersMemory {
 public:
  virtual ~CallersMemory() = default;
  // False: the caller has been told that the operation was given up; nothing of its memory may be touched.
  virtual bool Enter() = 0;
  virtual void Leave() = 0;
};

class RowBatch {
 public:
  // `asked` and its arrays belong to the caller, which keeps them until the batch is over.
  RowBatch(RowFile* file, BatchKind kind, const DiskBatch& asked) : file_(file), kind_(kind), asked_(asked) {}

  // Examines all requests and finds the operations.  INVALID_ARGUMENT: a slot is not of the file, or is written twice.
  CoreStatus Prepare();

  BatchKind kind() const { return kind_; }
  const std::vector<BlockOperation>& operations() const { return operations_; }

  // Carries an operation out and stores the results of its requests: 0, an errno, or a Damage.
  //   buffer  uint8[kMostWriteBytes], of a thread, on a page
  OperationFigures Run(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer) const;

  // Stores a result for all requests of an operation; for those of the batch whose result is 0.
  void Store(const BlockOperation& operation, std::int32_t result) const;
  void FailGood(std::int32_t result) const;

  // Ends the requests of an operation, of all operations, whose results are stored: each is DONE, or FAILED with the
  // result.  Nothing to do if the batch was asked without requests.
  void EndRequests(const BlockOperation& operation) const;
  void EndRequests() const;
  // The owner of `bell` is to know; nothing to do if there is none.
  void RingBell() const;

 private:
  struct Place {
    std::int64_t slot;
    std::int64_t request;  // index of the arrays
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
  std::vector<Place> order_;  // by slot
  std::vector<BlockOperation> operations_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_BATCH_H_
