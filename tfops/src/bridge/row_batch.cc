#include "bridge/row_batch.h"

#include <cstdint>
#include <string>

#include "bridge/bad_records.h"
#include "bridge/read_memory.h"
#include "bridge/status.h"
#include "core/reading_figures.h"

namespace ascpipe {

using tensorflow::Status;
using tensorflow::Tensor;

Status RowBatch::Read(std::int64_t epoch, SequencePart part, const ReadPosition& after, layout::Reading* counted,
                      std::vector<Tensor>* tensors) {
  ReadingClock clock;
  Status status;
  {
    std::vector<RowRun> rows;
    status = ToStatus(reader_.Read(epoch, part, &rows));
    counted->read_us = clock.Lap();
    if (status.ok()) status = Gather(rows, after, counted, tensors);
  }
  counted->parse_us = clock.Lap();
  reader_.Prefetch();
  return status;
}

Status RowBatch::Gather(const std::vector<RowRun>& rows, const ReadPosition& after, layout::Reading* counted,
                        std::vector<Tensor>* tensors) const {
  std::vector<std::int64_t> numbers;
  for (const RowRun& run : rows) {
    for (const std::int64_t row : run.rows) numbers.push_back(run.first + row);
  }
  const ReadMemory::Owned memory = ReadMemory::Make(after);
  std::size_t unfit = 0;
  const BatchParser::OnUnfit on_unfit = [this, &numbers, &unfit](std::size_t record, const std::string& why) {
    ++unfit;
    return OnUnfitRecord(settings_, numbers[record], why);
  };
  const Status status = settings_.columns->Gather(rows, memory.get(), on_unfit, tensors);
  if (settings_.skips_bad_records) counted->skipped = static_cast<std::int64_t>(unfit);
  TF_RETURN_IF_ERROR(status);
  if (unfit == numbers.size()) return NoFitRecord(settings_, numbers[0]);
  counted->batches = 1;
  counted->records = static_cast<std::int64_t>(numbers.size() - unfit);
  for (const Tensor& tensor : *tensors) counted->bytes += static_cast<std::int64_t>(tensor.TotalBytes());
  return OkStatus();
}

}  // namespace ascpipe
