#include "disk/row_batch.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "core/atomics.h"
#include "core/bell.h"
#include "core/layout.h"

namespace ascpipe {

namespace {

std::int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

}  // namespace

CoreStatus RowBatch::Prepare() {
  const std::int64_t slots = file_->slots();
  const RowFormat& format = file_->format();
  order_.reserve(static_cast<std::size_t>(asked_.count));
  for (std::int64_t i = 0; i < asked_.count; ++i) {
    const std::int64_t slot = asked_.slots[i];
    if (slot < 0 || slot >= slots) {
      return Error(Code::kInvalidArgument, "disk slot ", slot, " of key ", asked_.keys[i], " is not one of the ", slots,
                   " of the row file in ", file_->directory());
    }
    order_.push_back({slot, i});
  }
  std::sort(order_.begin(), order_.end(), [](const Place& one, const Place& other) {
    return one.slot != other.slot ? one.slot < other.slot : one.request < other.request;
  });
  const std::int64_t n = static_cast<std::int64_t>(order_.size());
  for (std::int64_t begin = 0, end; begin < n; begin = end) {
    const std::int64_t block = format.BlockOf(order_[begin].slot);
    for (end = begin + 1; end < n && format.BlockOf(order_[end].slot) == block; ++end) {
      if (kind_ == BatchKind::kWrite && order_[end].slot == order_[end - 1].slot) {
        return Error(Code::kInvalidArgument, "disk slot ", order_[end].slot, " is written for key ",
                     asked_.keys[order_[end - 1].request], " and key ", asked_.keys[order_[end].request]);
      }
    }
    Append(begin, end);
  }
  return CoreStatus();
}

// Returns true if the block may contain used rows that the batch does not write.
bool RowBatch::Keeps(std::int64_t begin, std::int64_t end) const {
  if (kind_ == BatchKind::kRead || end - begin == file_->format().slots_per_block()) return false;
  if (asked_.alone == nullptr) return true;
  return !std::all_of(order_.begin() + begin, order_.begin() + end,
                      [this](const Place& place) { return asked_.alone[place.request] != 0; });
}

// Appends an operation for the requests of one block. Writes of adjacent blocks are merged into one operation if all
// rows that must be kept in these blocks belong to the batch.
void RowBatch::Append(std::int64_t begin, std::int64_t end) {
  const RowFormat& format = file_->format();
  const std::int64_t block = format.BlockOf(order_[begin].slot);
  const bool keeps = Keeps(begin, end);
  if (kind_ == BatchKind::kWrite && !keeps && !operations_.empty()) {
    BlockOperation* const last = &operations_.back();
    if (!last->keeps && last->first_block + last->block_count == block &&
        last->block_count < format.blocks_per_write()) {
      last->end = end;
      ++last->block_count;
      return;
    }
  }
  operations_.push_back({begin, end, block, 1, keeps});
}

OperationFigures RowBatch::Run(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer) const {
  OperationFigures figures;
  if (kind_ == BatchKind::kRead) {
    RunRead(operation, memory, buffer, &figures);
  } else {
    RunWrite(operation, memory, buffer, &figures);
  }
  return figures;
}

int RowBatch::TimedRead(const BlockOperation& operation, std::uint8_t* buffer, OperationFigures* figures) const {
  const std::int64_t begin = MonotonicNs();
  const int error = file_->Read(operation.first_block, operation.block_count, buffer);
  figures->read_ns = std::max<std::int64_t>(1, MonotonicNs() - begin);
  if (error == 0) figures->read_bytes = operation.block_count * file_->format().block_bytes();
  return error;
}

void RowBatch::RunRead(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer,
                       OperationFigures* figures) const {
  const RowFormat& format = file_->format();
  const int error = TimedRead(operation, buffer, figures);
  if (!memory->Enter()) return;
  if (error != 0) {
    Store(operation, error);
    figures->rows_failed = operation.end - operation.begin;
  } else {
    for (std::int64_t at = operation.begin; at < operation.end; ++at) {
      const std::int64_t i = order_[at].request;
      const std::uint8_t* const found = buffer + format.OffsetOf(order_[at].slot);
      const Damage damage = format.Examine(found, asked_.keys[i], order_[at].slot, asked_.generations[i]);
      if (damage == kWhole) std::memcpy(asked_.rows[i], found, static_cast<std::size_t>(format.row_bytes()));
      asked_.results[i] = damage;
      ++(damage == kWhole ? figures->rows_read : figures->rows_damaged);
    }
  }
  memory->Leave();
}

void RowBatch::RunWrite(const BlockOperation& operation, CallersMemory* memory, std::uint8_t* buffer,
                        OperationFigures* figures) const {
  const std::int64_t bytes = operation.block_count * file_->format().block_bytes();
  int error = 0;
  if (operation.keeps) {
    error = TimedRead(operation, buffer, figures);
  } else {
    std::memset(buffer, 0, static_cast<std::size_t>(bytes));
  }
  if (error == 0) {
    if (!memory->Enter()) return;
    SealAll(operation, buffer, figures);
    memory->Leave();
    const std::int64_t begin = MonotonicNs();
    error = file_->Write(operation.first_block, operation.block_count, buffer);
    figures->write_ns = std::max<std::int64_t>(1, MonotonicNs() - begin);
    if (error == 0) figures->write_bytes = bytes;
  }
  if (!memory->Enter()) return;
  Store(operation, error);
  (error == 0 ? figures->rows_written : figures->rows_failed) = operation.end - operation.begin;
  memory->Leave();
}

// Copies the rows of an operation into the buffer. Slots that the operation does not write are kept, even if they are
// torn. Either a torn slot is free, because its writer was killed, or a later read of the slot returns an error.
void RowBatch::SealAll(const BlockOperation& operation, std::uint8_t* buffer, OperationFigures* figures) const {
  const RowFormat& format = file_->format();
  std::int64_t at = operation.begin;
  if (operation.keeps) {
    const std::int64_t first = operation.first_block * format.slots_per_block();
    for (std::int64_t slot = first; slot < first + format.slots_per_block(); ++slot) {
      if (at < operation.end && order_[at].slot == slot) {
        ++at;
      } else if (!format.IsSound(buffer + format.OffsetOf(slot))) {
        ++figures->damaged_neighbours;
      }
    }
  }
  for (at = operation.begin; at < operation.end; ++at) {
    const std::int64_t i = order_[at].request, slot = order_[at].slot;
    std::uint8_t* const block = buffer + (format.BlockOf(slot) - operation.first_block) * format.block_bytes();
    format.Seal(asked_.rows[i], asked_.keys[i], slot, asked_.generations[i], block + format.OffsetOf(slot));
  }
}

void RowBatch::Store(const BlockOperation& operation, std::int32_t result) const {
  for (std::int64_t at = operation.begin; at < operation.end; ++at) asked_.results[order_[at].request] = result;
}

void RowBatch::FailGood(std::int32_t result) const {
  for (std::int64_t i = 0; i < asked_.count; ++i) {
    if (asked_.results[i] == 0) asked_.results[i] = result;
  }
}

void RowBatch::EndRequest(std::int64_t i) const {
  layout::Request* const request = static_cast<layout::Request*>(asked_.requests[i]);
  request->error = asked_.results[i];
  Exchange(&request->word,  // SYNC request-done: store
           static_cast<std::uint32_t>(asked_.results[i] == 0 ? layout::kRequestDone : layout::kRequestFailed));
}

void RowBatch::EndRequests(const BlockOperation& operation) const {
  if (asked_.requests == nullptr) return;
  for (std::int64_t at = operation.begin; at < operation.end; ++at) EndRequest(order_[at].request);
}

void RowBatch::EndRequests() const {
  if (asked_.requests == nullptr) return;
  for (std::int64_t i = 0; i < asked_.count; ++i) EndRequest(i);
}

void RowBatch::RingBell() const {
  if (asked_.bell != nullptr) Ring(static_cast<layout::Bell*>(asked_.bell));
}

}  // namespace ascpipe
