#include "bridge/record_batch.h"

#include <memory>
#include <utility>

#include "bridge/read_memory.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "core/reading_figures.h"
#include "tensorflow/core/platform/logging.h"

namespace ascpipe {

namespace {

using tensorflow::Status;
using tensorflow::Tensor;

constexpr std::int64_t kMostLogged = 10;  // skipped records of a dataset, each with its reason

bool IsPowerOfTen(std::int64_t number) {
  while (number % 10 == 0) number /= 10;
  return number == 1;
}

}  // namespace

Status RecordBatch::Read(const std::vector<std::int64_t>& numbers, const ReadPosition& after,
                         std::vector<Tensor>* tensors) {
  layout::Reading counted{};
  const Status status = ReadAndParse(numbers, after, &counted, tensors);
  settings_.Count(counted);
  return status;
}

Status RecordBatch::ReadAndParse(const std::vector<std::int64_t>& numbers, const ReadPosition& after,
                                 layout::Reading* counted, std::vector<Tensor>* tensors) {
  ReadingClock clock;
  const Status status = ReadRecords(numbers);
  counted->read_us = clock.Lap();
  counted->skipped = static_cast<std::int64_t>(settings_.skips_bad_records ? numbers.size() - numbers_.size() : 0);
  TF_RETURN_IF_ERROR(status);
  const std::unique_ptr<ReadMemory, ReadMemory::Disowner> memory(ReadMemory::Make(after));
  std::size_t unfit = 0;
  const BatchParser::OnUnfit on_unfit = [this, &unfit](std::size_t record, const std::string& why) {
    ++unfit;
    return OnUnfit(numbers_[record], why);
  };
  const Status parsed = settings_.parser->Parse(records_, memory.get(), on_unfit, tensors);
  counted->parse_us = clock.Lap();
  if (settings_.skips_bad_records) counted->skipped += static_cast<std::int64_t>(unfit);
  TF_RETURN_IF_ERROR(parsed);
  if (unfit < numbers_.size()) {
    counted->batches = 1;
    counted->records = static_cast<std::int64_t>(numbers_.size() - unfit);
    for (const ByteRange& record : records_) counted->bytes += static_cast<std::int64_t>(record.size);
    return OkStatus();
  }
  return Refuse(kE337, "No record of a batch has the features that the dataset reads; the first is ",
                settings_.records->Describe(numbers_[0]),
                ". No batch has these records, and nothing else is lost. "
                "Correct the features (`ascpipe data head` prints the features of the file)");
}

Status RecordBatch::ReadRecords(const std::vector<std::int64_t>& numbers) {
  numbers_ = numbers;
  const CoreStatus status = reader_.Read(numbers, &records_);
  if (status.ok()) return OkStatus();
  if (!settings_.skips_bad_records) return ToStatus(status);
  return ReadGoodRecords(numbers);
}

Status RecordBatch::ReadGoodRecords(const std::vector<std::int64_t>& numbers) {
  numbers_.clear();
  copies_.clear();
  for (const std::int64_t number : numbers) {
    const CoreStatus status = reader_.Read({number}, &records_);
    if (status.ok()) {
      numbers_.push_back(number);
      copies_.emplace_back(records_[0].data, records_[0].data + records_[0].size);
    } else if (status.code() == Code::kDataLoss) {
      Skip(number, status.text());
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

Status RecordBatch::OnUnfit(std::int64_t number, const std::string& why) const {
  if (settings_.skips_bad_records) {
    Skip(number, why);
    return OkStatus();
  }
  return Refuse(kE337, settings_.records->Describe(number),
                " does not have the features that the dataset reads: ", Printable(why),
                ". No batch has this record, and nothing else is lost. Correct the features (`ascpipe "
                "data head` prints the features of the file), or pass on_bad_record=\"skip\"");
}

void RecordBatch::Skip(std::int64_t number, const std::string& why) const {
  const std::int64_t skipped = settings_.skipped_records.fetch_add(1) + 1;
  if (skipped > kMostLogged && !IsPowerOfTen(skipped)) return;
  LOG(WARNING) << "ascpipe: skipped " << settings_.records->Describe(number) << ": " << Printable(why)
               << (skipped < kMostLogged ? std::string()
                                         : Text(". The dataset has skipped ", skipped,
                                                " records so far; the next "
                                                "message comes after ",
                                                10 * skipped));
}

}  // namespace ascpipe
