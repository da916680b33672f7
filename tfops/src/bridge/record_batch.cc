#include "bridge/record_batch.h"

#include <memory>
#include <utility>

#include "bridge/bad_records.h"
#include "bridge/read_memory.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "core/reading_figures.h"

namespace ascpipe {

namespace {

using tensorflow::Status;
using tensorflow::Tensor;

}  // namespace

Status RecordBatch::Read(std::int64_t epoch, SequencePart part, const ReadPosition& after, layout::Reading* counted,
                         std::vector<Tensor>* tensors) {
  ReadingClock clock;
  numbers_.resize(static_cast<std::size_t>(part.count));
  plan_.RecordsOf(epoch, part, numbers_.data());
  const Status status = ReadRecords();
  counted->read_us = clock.Lap();
  if (settings_.skips_bad_records) counted->skipped = part.count - static_cast<std::int64_t>(numbers_.size());
  TF_RETURN_IF_ERROR(status);
  const ReadMemory::Owned memory = ReadMemory::Make(after);
  std::size_t unfit = 0;
  const BatchParser::OnUnfit on_unfit = [this, &unfit](std::size_t record, const std::string& why) {
    ++unfit;
    return OnUnfitRecord(settings_, numbers_[record], why);
  };
  const Status parsed = settings_.parser->Parse(records_, memory.get(), on_unfit, tensors);
  counted->parse_us = clock.Lap();
  if (settings_.skips_bad_records) counted->skipped += static_cast<std::int64_t>(unfit);
  TF_RETURN_IF_ERROR(parsed);
  if (unfit == numbers_.size()) return NoFitRecord(settings_, numbers_[0]);
  counted->batches = 1;
  counted->records = static_cast<std::int64_t>(numbers_.size() - unfit);
  for (const ByteRange& record : records_) counted->bytes += static_cast<std::int64_t>(record.size);
  return OkStatus();
}

Status RecordBatch::ReadRecords() {
  const CoreStatus status = reader_.Read(numbers_, &records_);
  if (status.ok()) return OkStatus();
  if (!settings_.skips_bad_records) return ToStatus(status);
  return ReadGoodRecords();
}

Status RecordBatch::ReadGoodRecords() {
  const std::vector<std::int64_t> numbers = std::move(numbers_);
  numbers_.clear();
  copies_.clear();
  for (const std::int64_t number : numbers) {
    const CoreStatus status = reader_.Read({number}, &records_);
    if (status.ok()) {
      numbers_.push_back(number);
      copies_.emplace_back(records_[0].data, records_[0].data + records_[0].size);
    } else if (status.code() == Code::kDataLoss) {
      SkipRecord(settings_, number, status.text());
    } else {
      return ToStatus(status);
    }
  }
  records_.clear();
  for (const std::vector<char>& copy : copies_) records_.push_back({copy.data(), copy.size()});
  if (!numbers_.empty()) return OkStatus();
  return Refuse(kE330, "All ", numbers.size(), " records of a batch are damaged, the first is ",
                settings_.records->Describe(numbers[0]),
                ". No batch has these records, and nothing else is lost. "
                "Check the files with `ascpipe data check`, and write them again");
}

}  // namespace ascpipe
