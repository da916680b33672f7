// AscReadDataset reads files of training data.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bridge/batch_reader.h"
#include "bridge/compatibility.h"
#include "bridge/read_settings.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

REGISTER_OP("AscReadDataset")
    .Output("handle: variant")
    .Attr("files: list(string) >= 1")
    .Attr("indexes: list(string) >= 1")
    .Attr("dense_keys: list(string) >= 0")
    .Attr("dense_types: list({float,int64,string}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Attr("dense_defaults: list(tensor) >= 0")
    .Attr("sparse_keys: list(string) >= 0")
    .Attr("sparse_types: list({float,int64,string}) >= 0")
    .Attr("buckets: list(int) >= 0")
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
A dataset with one element per batch of the records of TFRecord files.

An element has the tensors that ParseExample returns: the dense tensors, then the indices of all sparse features, their
values, and their shapes. The order of the records is that of tfops/src/input/batch_plan.h.

files: Paths of the files.
indexes: Paths of the index of each file.
dense_keys: Names of the dense features in the records.
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

  // These functions are virtual in only one of the versions of TensorFlow.
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
  // Each of these functions is virtual in one of the versions of TensorFlow.
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
        "AscReadDataset: the position of the dataset is in the checkpoints of the tables, and not in those of "
        "iterators. Remove the saveable of the iterator");
  }

  BatchReader reader_;
};

std::unique_ptr<tensorflow::data::IteratorBase> ReadDataset::MakeIteratorInternal(const std::string& prefix) const {
  return std::unique_ptr<tensorflow::data::IteratorBase>(new Iterator(Iterator::Params{this, prefix + "::AscRead"}));
}

// Settings of the datasets that exist, by source. TensorFlow creates a dataset again when it optimizes the datasets of
// an iterator, and its indexes need not be read again.
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
    OP_REQUIRES_OK(construction, construction->GetAttr("files", &files_));
    OP_REQUIRES_OK(construction, construction->GetAttr("indexes", &indexes_));
    OP_REQUIRES(
        construction, files_.size() == indexes_.size(),
        Refuse(Code::kInvalidArgument, "AscReadDataset: ", files_.size(), " files, but ", indexes_.size(), " indexes"));
    OP_REQUIRES_OK(construction, ReadSchedule(construction));
    OP_REQUIRES_OK(construction, ReadDense(construction));
    OP_REQUIRES_OK(construction, ReadSparse(construction));
  }

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, DatasetBase** dataset) override {
    std::shared_ptr<const ReadSettings> settings = ExistingSettings(schedule_.source, nullptr);
    if (settings == nullptr) {
      OP_REQUIRES_OK(ctx, Create(&settings));
      ExistingSettings(schedule_.source, settings);
    }
    *dataset = new ReadDataset(ctx, std::move(settings), attributes_, types_, shapes_);
  }

 private:
  // Attributes of the order of records and of the threads.
  struct Schedule {
    std::int64_t source, rank, readers, read_ahead;
    bool skips_bad_records;
    BatchPlanArguments plan;
  };

  static Status ReadInt(OpKernelConstruction* construction, const char* name, std::int64_t* value) {
    tensorflow::int64 read;
    TF_RETURN_IF_ERROR(construction->GetAttr(name, &read));
    *value = read;
    return OkStatus();
  }

  Status ReadSchedule(OpKernelConstruction* construction) {
    BatchPlanArguments& plan = schedule_.plan;
    std::int64_t seed;
    bool shuffles, drops;
    TF_RETURN_IF_ERROR(ReadInt(construction, "source", &schedule_.source));
    TF_RETURN_IF_ERROR(ReadInt(construction, "rank", &schedule_.rank));
    TF_RETURN_IF_ERROR(ReadInt(construction, "readers", &schedule_.readers));
    TF_RETURN_IF_ERROR(ReadInt(construction, "read_ahead", &schedule_.read_ahead));
    TF_RETURN_IF_ERROR(construction->GetAttr("skips_bad_records", &schedule_.skips_bad_records));
    TF_RETURN_IF_ERROR(ReadInt(construction, "seed", &seed));
    TF_RETURN_IF_ERROR(ReadInt(construction, "epochs", &plan.epochs));
    TF_RETURN_IF_ERROR(ReadInt(construction, "batch_size", &plan.batch_size));
    TF_RETURN_IF_ERROR(ReadInt(construction, "ranks", &plan.ranks));
    TF_RETURN_IF_ERROR(construction->GetAttr("shuffles", &shuffles));
    TF_RETURN_IF_ERROR(construction->GetAttr("drop_remainder", &drops));
    plan.seed = static_cast<std::uint64_t>(seed);
    plan.shuffles = shuffles ? 1 : 0;
    plan.drop_remainder = drops ? 1 : 0;
    return OkStatus();
  }

  Status ReadDense(OpKernelConstruction* construction) {
    std::vector<std::string> keys;
    tensorflow::DataTypeVector types;
    std::vector<tensorflow::PartialTensorShape> shapes;
    std::vector<tensorflow::Tensor> defaults;
    TF_RETURN_IF_ERROR(construction->GetAttr("dense_keys", &keys));
    TF_RETURN_IF_ERROR(construction->GetAttr("dense_types", &types));
    TF_RETURN_IF_ERROR(construction->GetAttr("dense_shapes", &shapes));
    TF_RETURN_IF_ERROR(construction->GetAttr("dense_defaults", &defaults));
    if (types.size() != keys.size() || shapes.size() != keys.size() || defaults.size() != keys.size()) {
      return Refuse(Code::kInvalidArgument, "AscReadDataset: ", keys.size(), " dense keys, ", types.size(), " types, ",
                    shapes.size(), " shapes and ", defaults.size(), " default values");
    }
    features_.config.dense.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto& dense = features_.config.dense[i];
      dense.feature_name = keys[i];
      dense.dtype = types[i];
      dense.shape = shapes[i];
      dense.default_value = defaults[i];
      TF_RETURN_IF_ERROR(DescribeShape(&dense));
    }
    return OkStatus();
  }

  // Sets variable_length and elements_per_stride, as in ParseExample.
  static Status DescribeShape(tensorflow::example::FastParseExampleConfig::Dense* dense) {
    const tensorflow::PartialTensorShape& shape = dense->shape;
    if (shape.unknown_rank()) return Refuse(Code::kInvalidArgument, "AscReadDataset: a dense feature has no shape");
    dense->variable_length = shape.dims() > 0 && shape.dim_size(0) == -1;
    dense->elements_per_stride = 1;
    for (int axis = dense->variable_length ? 1 : 0; axis < shape.dims(); ++axis) {
      if (shape.dim_size(axis) < 0) {
        return Refuse(Code::kInvalidArgument, "AscReadDataset: the shape of the dense feature '", dense->feature_name,
                      "' is ", shape.DebugString(), ", but only the first dimension may be unknown");
      }
      dense->elements_per_stride *= static_cast<std::size_t>(shape.dim_size(axis));
    }
    return OkStatus();
  }

  Status ReadSparse(OpKernelConstruction* construction) {
    std::vector<std::string> keys;
    tensorflow::DataTypeVector types;
    std::vector<tensorflow::int64> buckets;
    TF_RETURN_IF_ERROR(construction->GetAttr("sparse_keys", &keys));
    TF_RETURN_IF_ERROR(construction->GetAttr("sparse_types", &types));
    TF_RETURN_IF_ERROR(construction->GetAttr("buckets", &buckets));
    if (types.size() != keys.size() || buckets.size() != keys.size() + features_.config.dense.size()) {
      return Refuse(Code::kInvalidArgument, "AscReadDataset: ", keys.size(), " sparse keys, ", types.size(),
                    " types and ", buckets.size(), " buckets");
    }
    features_.config.sparse.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      features_.config.sparse[i].feature_name = keys[i];
      features_.config.sparse[i].dtype = types[i];
    }
    features_.buckets.assign(buckets.begin(), buckets.end());
    return OkStatus();
  }

  Status Create(std::shared_ptr<const ReadSettings>* created) const {
    std::vector<RecordSet::Source> sources;
    sources.reserve(files_.size());
    for (std::size_t i = 0; i < files_.size(); ++i) sources.push_back({files_[i], indexes_[i]});
    std::unique_ptr<RecordSet> records;
    TF_RETURN_IF_ERROR(ToStatus(RecordSet::Open(std::move(sources), &records)));
    const auto settings = std::make_shared<ReadSettings>();
    settings->source = schedule_.source;
    settings->plan = schedule_.plan;
    settings->plan.records = records->records();
    TF_RETURN_IF_ERROR(ToStatus(BatchPlan::Check(settings->plan)));
    settings->records = std::move(records);
    settings->rank = schedule_.rank;
    settings->features = features_;
    std::vector<WantedFeature> common = CommonFeatures(features_.config);
    if (!common.empty()) settings->parser.reset(new ExampleParser(std::move(common)));
    settings->readers = schedule_.readers;
    settings->read_ahead = schedule_.read_ahead;
    settings->skips_bad_records = schedule_.skips_bad_records;
    *created = settings;
    return OkStatus();
  }

  Attributes attributes_;
  tensorflow::DataTypeVector types_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
  std::vector<std::string> files_, indexes_;
  Schedule schedule_ = {};
  ExampleFeatures features_;
};

REGISTER_KERNEL_BUILDER(Name("AscReadDataset").Device(tensorflow::DEVICE_CPU), ReadDatasetOp);

}  // namespace ascpipe
