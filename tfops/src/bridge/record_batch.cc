#include "bridge/record_batch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bridge/read_memory.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace ascpipe {

namespace {

using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::example::FastParseExample;
using tensorflow::example::Result;

constexpr std::int64_t kMostLogged = 10;  // skipped records of a dataset

// Releases the allocator of a batch. The tensors keep it alive.
struct Disowner {
  void operator()(ReadMemory* memory) const { memory->Disown(); }
};

// Copies a tensor to memory of the batch. Strings are not copied, because their memory has no position.
Tensor CopiedTo(tensorflow::Allocator* allocator, const Tensor& tensor) {
  if (!tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) return tensor;
  Tensor copy(allocator, tensor.dtype(), tensor.shape());
  const tensorflow::StringPiece bytes = tensor.tensor_data();
  std::copy(bytes.begin(), bytes.end(), const_cast<char*>(copy.tensor_data().data()));
  return copy;
}

TensorString StringOf(const ByteRange& record) { return TensorString(record.data, record.size); }

}  // namespace

Status RecordBatch::Read(const std::vector<std::int64_t>& numbers, const ReadPosition& after,
                         std::vector<Tensor>* tensors) {
  TF_RETURN_IF_ERROR(ReadRecords(numbers));
  const std::unique_ptr<ReadMemory, Disowner> memory(ReadMemory::Make(after));
  Result result;
  TF_RETURN_IF_ERROR(Parse(memory.get(), &result));
  for (auto* const columns :
       {&result.dense_values, &result.sparse_indices, &result.sparse_values, &result.sparse_shapes}) {
    for (Tensor& tensor : *columns) tensors->push_back(std::move(tensor));
  }
  return OkStatus();
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

Status RecordBatch::Parse(tensorflow::Allocator* allocator, Result* result) {
  const ShareWork alone = [](std::int64_t total, std::int64_t, const Blocks::Work& work) { work(0, total); };
  if (settings_.parser != nullptr &&
      ParseCommonForm(alone, *settings_.parser, settings_.features, records_, allocator, result)) {
    return OkStatus();
  }
  *result = Result();
  TF_RETURN_IF_ERROR(ParseUnusual(result));
  std::size_t feature = 0;
  for (auto* const values : {&result->dense_values, &result->sparse_values}) {
    for (Tensor& tensor : *values) {
      const std::int64_t buckets = settings_.features.BucketsOf(feature++);
      tensor =
          buckets == ExampleFeatures::kNotHashed ? CopiedTo(allocator, tensor) : Hashed(tensor, buckets, allocator);
    }
  }
  return OkStatus();
}

Status RecordBatch::ParseUnusual(Result* result) {
  std::vector<TensorString> records;
  records.reserve(records_.size());
  for (const ByteRange& record : records_) records.push_back(StringOf(record));
  const Status status = FastParseExample(settings_.features.config, records, {}, nullptr, result);
  if (status.ok()) return status;
  std::vector<TensorString> good;
  std::int64_t first_bad = -1;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::vector<TensorString> one = {records[i]};
    Result ignored;
    const Status fits = FastParseExample(settings_.features.config, one, {}, nullptr, &ignored);
    if (fits.ok()) {
      good.push_back(records[i]);
      continue;
    }
    if (!settings_.skips_bad_records) return Unfit(numbers_[i], fits);
    if (first_bad < 0) first_bad = numbers_[i];
    Skip(numbers_[i], MessageOf(fits));
  }
  if (first_bad < 0) return status;  // each record fits alone
  if (good.empty()) return Unfit(first_bad, status);
  *result = Result();
  return FastParseExample(settings_.features.config, good, {}, nullptr, result);
}

Status RecordBatch::Unfit(std::int64_t number, const Status& cause) const {
  return Refuse(kE337, settings_.records->Describe(number),
                " does not have the features that the dataset reads: ", Printable(MessageOf(cause)),
                ". No batch has this record, and nothing else is lost. Correct the "
                "features (`ascpipe data head` prints those of the file), or pass on_bad_record=\"skip\"");
}

void RecordBatch::Skip(std::int64_t number, const std::string& why) const {
  const std::int64_t skipped = settings_.skipped_records.fetch_add(1) + 1;
  if (skipped > kMostLogged) return;
  LOG(WARNING) << "ascpipe: skipped " << settings_.records->Describe(number) << ": " << Printable(why)
               << (skipped == kMostLogged ? ". Further skipped records of this dataset are only counted" : "");
}

}  // namespace ascpipe
