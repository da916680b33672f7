// AscReadDataset creates a dataset that reads files of training data.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bridge/batch_reader.h"
#include "bridge/compatibility.h"
#include "bridge/read_arguments.h"
#include "bridge/read_settings.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
// In dataset.h of TensorFlow 2.15, the compiler warns about the copy of an uninitialized pointer.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "tensorflow/core/framework/dataset.h"
#pragma GCC diagnostic pop

REGISTER_OP("AscReadDataset")
    .Output("handle: variant")
    .Attr("files: list(string) >= 1")
    .Attr("indexes: list(string) >= 0")
    .Attr("record_format: list(int) = [0, 0, 0, 0]")
    .Attr("row_groups: list(int) >= 0 = []")
    .Attr("dense_keys: list(string) >= 0")
    .Attr("dense_types: list({float,double,int32,int64,string}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Attr("dense_defaults: list(tensor) >= 0")
    .Attr("sparse_keys: list(string) >= 0")
    .Attr("sparse_types: list({float,int64,string}) >= 0")
    .Attr("buckets: list(int) >= 0")
    .Attr("fields: list(int) >= 0 = []")
    .Attr("hexadecimal: list(bool) >= 0 = []")
    .Attr("selects_fields: bool = false")
    .Attr("batch_size: int >= 1")
    .Attr("epochs: int >= -1")
    .Attr("seed: int")
    .Attr("shuffles: bool")
    .Attr("drop_remainder: bool")
    .Attr("rank: int >= 0")
    .Attr("ranks: int >= 1")
    .Attr("readers: int >= 1")
    .Attr("read_ahead: int >= 1")
    .Attr("skips_bad_records: bool")
    .Attr("source: int")
    .Attr("data: string")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()  // otherwise Grappler would replace the dataset by a constant
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
A dataset with one element per batch of the records of files.

For TFRecord and Parquet files, an element has the tensors that ParseExample returns: the dense tensors, then the indices
of all sparse features, their values, and their shapes. For text files, it has a tensor per field that is read. The order
of the records is that of tfops/src/input/batch_plan.h, or row_groups.h for Parquet files.

files: Paths of the files.
indexes: Paths of the index of each file, except for Parquet files.
record_format: Fields of RecordFormat (ascpipe/layout/calls.py).
row_groups: For Parquet: size, modification time in ns, number of row groups and rows of each row group, of each file.
dense_keys: Names of the dense features in the records, or of the fields of text, or of columns.
dense_types: Types in the records.
dense_shapes: As in ParseExample. An unknown first dimension means that records have different numbers of values.
dense_defaults: As in ParseExample. An empty tensor means that all records have the feature.
sparse_keys: Names of the sparse features in the records.
sparse_types: Types in the records.
buckets: Number of buckets for each dense and each sparse feature: -1 = not hashed, 0 = fingerprint.
batch_size: Number of records in a batch of one rank.
epochs: Number of epochs, or -1.
seed: Seed of the shuffle.
shuffles: Whether records are shuffled.
drop_remainder: Whether an epoch has only full batches.
rank: Number of this rank.
ranks: Number of ranks.
readers: Number of threads that read batches.
read_ahead: Maximum number of batches that were read but not returned.
skips_bad_records: Whether bad records are skipped and counted. Otherwise they are an error.
fields: For text: numbers of the fields in the order of dense_keys, strictly increasing.
hexadecimal: For text: whether a field of type int64 has hexadecimal digits.
selects_fields: For text: whether records may have other fields.
source: Number of the dataset in this process.
data: Identification of the records and their order. A position belongs to it.
)doc");

namespace ascpipe {

namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::Status;
using tensorflow::data::DatasetBase;

using Attributes = std::vector<std::pair<std::string, tensorflow::AttrValue>>;

class ReadDataset : public DatasetBase {
 public:
  ReadDataset(tensorflow::OpKernelContext* ctx, std::shared_ptr<const ReadSettings> settings, Attributes attributes,
              tensorflow::DataTypeVector types, std::vector<tensorflow::PartialTensorShape> shapes)
      : DatasetBase(tensorflow::data::DatasetContext(ctx)),
        settings_(std::move(settings)),
        attributes_(std::move(attributes)),
        types_(std::move(types)),
        shapes_(std::move(shapes)) {}

  const tensorflow::DataTypeVector& output_dtypes() const override { return types_; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override { return shapes_; }
  std::string DebugString() const override { return "AscReadDatasetOp::Dataset"; }
  const std::shared_ptr<const ReadSettings>& settings() const { return settings_; }

  // InputDatasets and CheckExternalState are each virtual in only one of the supported TensorFlow versions.
  Status InputDatasets(std::vector<const DatasetBase*>*) const { return OkStatus(); }
  Status CheckExternalState() const { return OkStatus(); }

 protected:
  class Iterator;

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override;

  Status AsGraphDefInternal(tensorflow::data::SerializationContext*, DatasetGraphDefBuilder* builder,
                            tensorflow::Node** node) const override {
    std::vector<std::pair<tensorflow::StringPiece, tensorflow::AttrValue>> attributes(attributes_.begin(),
                                                                                      attributes_.end());
    return builder->AddDataset(this, {}, attributes, node);
  }

 private:
  const std::shared_ptr<const ReadSettings> settings_;
  const Attributes attributes_;  // of the op, except output_types and output_shapes
  const tensorflow::DataTypeVector types_;
  const std::vector<tensorflow::PartialTensorShape> shapes_;
};

class ReadDataset::Iterator : public tensorflow::data::DatasetIterator<ReadDataset> {
 public:
  explicit Iterator(const Params& params)
      : tensorflow::data::DatasetIterator<ReadDataset>(params), reader_(params.dataset->settings()) {}

  Status GetNextInternal(tensorflow::data::IteratorContext* ctx, std::vector<tensorflow::Tensor>* batch,
                         bool* is_end) override {
    return reader_.Next(ctx->cancellation_manager(), batch, is_end);
  }

 protected:
  // Each overload of SaveInternal is virtual in only one of the supported TensorFlow versions.
  Status SaveInternal(tensorflow::data::SerializationContext*, tensorflow::data::IteratorStateWriter*) {
    return Unsaved();
  }
  Status SaveInternal(tensorflow::data::IteratorStateWriter*) { return Unsaved(); }
  Status RestoreInternal(tensorflow::data::IteratorContext*, tensorflow::data::IteratorStateReader*) override {
    return Unsaved();
  }

 private:
  static Status Unsaved() {
    return Refuse(
        Code::kFailedPrecondition,
        "AscReadDataset: the position of the dataset is in the checkpoints of the tables, and cannot be saved with "
        "iterators. Remove the saveable of the iterator");
  }

  BatchReader reader_;
};

std::unique_ptr<tensorflow::data::IteratorBase> ReadDataset::MakeIteratorInternal(const std::string& prefix) const {
  return std::unique_ptr<tensorflow::data::IteratorBase>(new Iterator(Iterator::Params{this, prefix + "::AscRead"}));
}

// Settings of the datasets that exist, by source. When TensorFlow optimizes the datasets of an iterator, it creates
// each dataset again. The settings are stored so that the indexes are not read again.
std::shared_ptr<const ReadSettings> ExistingSettings(std::int64_t source, std::shared_ptr<const ReadSettings> created) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const known = new std::map<std::int64_t, std::weak_ptr<const ReadSettings>>;
  std::lock_guard<std::mutex> lock(*mutex);
  if (created != nullptr) (*known)[source] = created;
  const auto found = known->find(source);
  return found == known->end() ? nullptr : found->second.lock();
}

}  // namespace

class ReadDatasetOp : public tensorflow::data::DatasetOpKernel {
 public:
  explicit ReadDatasetOp(OpKernelConstruction* construction) : DatasetOpKernel(construction) {
    for (const auto& attribute : construction->def().attr()) {
      const std::string& name = attribute.first;
      if (name == "output_types" || name == "output_shapes" || name[0] == '_') continue;
      attributes_.emplace_back(name, attribute.second);
    }
    OP_REQUIRES_OK(construction, construction->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(construction, construction->GetAttr("output_shapes", &shapes_));
    OP_REQUIRES_OK(construction, ReadArgumentsOf(construction, &arguments_));
  }

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, DatasetBase** dataset) override {
    std::shared_ptr<const ReadSettings> settings = ExistingSettings(arguments_.source, nullptr);
    if (settings == nullptr) {
      OP_REQUIRES_OK(ctx, OpenRead(arguments_, &settings));
      ExistingSettings(arguments_.source, settings);
    }
    *dataset = new ReadDataset(ctx, std::move(settings), attributes_, types_, shapes_);
  }

 private:
  Attributes attributes_;  // of the op, except output_types and output_shapes
  tensorflow::DataTypeVector types_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
  ReadArguments arguments_;
};

REGISTER_KERNEL_BUILDER(Name("AscReadDataset").Device(tensorflow::DEVICE_CPU), ReadDatasetOp);

}  // namespace ascpipe
