// AscParseExample has the inputs, outputs, results and errors of TensorFlow's op ParseExample, but is faster.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bridge/compatibility.h"
#include "bridge/example_columns.h"
#include "bridge/parallel.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/example_proto_helper.h"

REGISTER_OP("AscParseExample")
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: Nsparse * string")
    .Input("dense_keys: Ndense * string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: Nsparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: Nsparse * int64")
    .Output("dense_values: Tdense")
    .Attr("Nsparse: int >= 0")
    .Attr("Ndense: int >= 0")
    .Attr("sparse_types: list({float,int64,string}) >= 0")
    .Attr("Tdense: list({float,int64,string}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      const tensorflow::OpRegistrationData* parse;
      TF_RETURN_IF_ERROR(tensorflow::OpRegistry::Global()->LookUp("ParseExample", &parse));
      return parse->shape_inference_fn(c);
    })
    .Doc(R"doc(
Parses a batch of tf.train.Example records. Graphs of programs contain ParseExample. ascpipe replaces this op when a
session or a dataset uses it.

Records in the common form (input/example_parser.h) are parsed by ascpipe. If the batch has other records, TensorFlow's
parser parses the batch. Inputs, outputs and attributes are described in the documentation of ParseExample.
)doc");

namespace ascpipe {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;

// Number of consecutive unusual batches after which the op uses only TensorFlow's parser.
constexpr int kMostUnusual = 4;

}  // namespace

class ParseExampleOp : public tensorflow::OpKernel {
 public:
  explicit ParseExampleOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, InitParseExample(construction, &attrs_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const Tensor *serialized, *names;
    ExampleFeatures features;
    tensorflow::example::FastParseExampleConfig& config = features.config;
    OP_REQUIRES_OK(ctx, ctx->input("serialized", &serialized));
    OP_REQUIRES_OK(ctx, ctx->input("names", &names));
    OP_REQUIRES_OK(ctx, RequireShapes(*serialized, *names));
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, &config));
    tensorflow::example::Result result;
    const std::shared_ptr<const ExampleParser> parser = ParserOf(config);
    const ShareWork share = [ctx](std::int64_t total, std::int64_t block, const Blocks::Work& work) {
      ShareBlocks(ctx, total, block, work);
    };
    if (parser != nullptr && ParseCommonForm(share, *parser, features, RecordsOf(*serialized),
                                             ctx->get_allocator(tensorflow::AllocatorAttributes()), &result)) {
      unusual_.store(0, std::memory_order_relaxed);
    } else {
      if (parser != nullptr) unusual_.fetch_add(1, std::memory_order_relaxed);
      LogOnce(parser == nullptr ? "the common form has no feature of variable length or without values"
                                : "a batch has a record that is not in the common form");
      result = tensorflow::example::Result();
      OP_REQUIRES_OK(ctx, Decodable(tensorflow::example::FastParseExample(
                              config, Strings(*serialized), Strings(*names),
                              ctx->device()->tensorflow_cpu_worker_threads()->workers, &result)));
    }
    OP_REQUIRES_OK(ctx, Return(ctx, "dense_values", result.dense_values));
    OP_REQUIRES_OK(ctx, Return(ctx, "sparse_indices", result.sparse_indices));
    OP_REQUIRES_OK(ctx, Return(ctx, "sparse_values", result.sparse_values));
    OP_REQUIRES_OK(ctx, Return(ctx, "sparse_shapes", result.sparse_shapes));
  }

 private:
  static std::vector<ByteRange> RecordsOf(const Tensor& serialized) {
    std::vector<ByteRange> records;
    records.reserve(static_cast<std::size_t>(serialized.NumElements()));
    for (const TensorString& record : Strings(serialized)) records.push_back({record.data(), record.size()});
    return records;
  }

  static tensorflow::gtl::ArraySlice<TensorString> Strings(const Tensor& tensor) {
    const auto strings = tensor.flat<TensorString>();
    return {strings.data(), static_cast<std::size_t>(strings.size())};
  }

  // The text of TensorFlow's error contains the bytes of the damaged record. If Python cannot decode the text of an
  // error, TensorFlow 1.15 crashes.
  static tensorflow::Status Decodable(const tensorflow::Status& status) {
    if (status.ok()) return status;
    return tensorflow::Status(static_cast<StatusCode>(status.code()), Printable(MessageOf(status)));
  }

  // The errors below have the same messages as the errors of TensorFlow's kernel.
  static tensorflow::Status RequireShapes(const Tensor& serialized, const Tensor& names) {
    if (names.NumElements() > 0) {
      if (!TensorShapeUtils::IsVector(names.shape())) {
        return InvalidArgument("Expected names to be a vector, got shape: ", names.shape().DebugString());
      }
      if (names.NumElements() != serialized.NumElements()) {
        return InvalidArgument("Expected len(names) == len(serialized), but got: ", names.NumElements(), " vs. ",
                               serialized.NumElements());
      }
    }
    if (TensorShapeUtils::IsVector(serialized.shape())) return OkStatus();
    return InvalidArgument("Expected serialized to be a vector, got shape: ", serialized.shape().DebugString());
  }

  tensorflow::Status RequireDefault(int number, const Tensor& value) const {
    const tensorflow::PartialTensorShape& shape = attrs_.dense_shapes[number];
    if (attrs_.variable_length[number] && value.NumElements() != 1) {
      return InvalidArgument(
          "dense_shape[", number, "] is a variable length shape: ", shape.DebugString(), ", therefore def_value[",
          number,
          "] must contain a single element (the padding element).  But its shape is: ", value.shape().DebugString());
    }
    if (!attrs_.variable_length[number] && value.NumElements() > 0 && !shape.IsCompatibleWith(value.shape())) {
      return InvalidArgument("def_value[", number, "].shape() == ", value.shape().DebugString(),
                             " is not compatible with dense_shapes_[", number, "] == ", shape.DebugString());
    }
    return OkStatus();
  }

  tensorflow::Status ReadConfig(tensorflow::OpKernelContext* ctx,
                                tensorflow::example::FastParseExampleConfig* config) const {
    OpInputList dense_keys, sparse_keys, dense_defaults;
    TF_RETURN_IF_ERROR(ctx->input_list("dense_keys", &dense_keys));
    TF_RETURN_IF_ERROR(ctx->input_list("sparse_keys", &sparse_keys));
    TF_RETURN_IF_ERROR(ctx->input_list("dense_defaults", &dense_defaults));
    config->dense.resize(attrs_.num_dense);
    for (int i = 0; i < attrs_.num_dense; ++i) {
      TF_RETURN_IF_ERROR(RequireDefault(i, dense_defaults[i]));
      auto& dense = config->dense[i];
      dense.feature_name = dense_keys[i].scalar<TensorString>()();
      dense.dtype = attrs_.dense_types[i];
      dense.shape = attrs_.dense_shapes[i];
      dense.default_value = dense_defaults[i];
      dense.variable_length = attrs_.variable_length[i];
      dense.elements_per_stride = attrs_.elements_per_stride[i];
    }
    config->sparse.resize(attrs_.num_sparse);
    for (int i = 0; i < attrs_.num_sparse; ++i) {
      config->sparse[i].feature_name = sparse_keys[i].scalar<TensorString>()();
      config->sparse[i].dtype = attrs_.sparse_types[i];
    }
    return OkStatus();
  }

  // Returns a parser for records in the common form. Returns null if the parser does not support `config`, or if too
  // many batches were unusual. The names of the features are inputs of the op, but are usually the same in each call.
  std::shared_ptr<const ExampleParser> ParserOf(const tensorflow::example::FastParseExampleConfig& config) {
    if (unusual_.load(std::memory_order_relaxed) >= kMostUnusual) return nullptr;
    std::vector<WantedFeature> features = CommonFeatures(config);
    if (features.empty()) return nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    if (parser_ == nullptr || !parser_->Reads(features)) {
      parser_ = std::make_shared<const ExampleParser>(std::move(features));
    }
    return parser_;
  }

  void LogOnce(const char* why) {
    std::call_once(logged_, [this, why] {
      LOG(INFO) << "ascpipe: '" << name() << "' uses TensorFlow's parser, which is slower: " << why;
    });
  }

  static tensorflow::Status Return(tensorflow::OpKernelContext* ctx, const char* name,
                                   const std::vector<Tensor>& tensors) {
    OpOutputList outputs;
    TF_RETURN_IF_ERROR(ctx->output_list(name, &outputs));
    for (std::size_t i = 0; i < tensors.size(); ++i) outputs.set(static_cast<int>(i), tensors[i]);
    return OkStatus();
  }

  tensorflow::ParseExampleAttrs attrs_;
  std::atomic<int> unusual_{0};  // number of unusual batches since the last batch in the common form
  std::once_flag logged_;
  std::mutex mutex_;
  std::shared_ptr<const ExampleParser> parser_;  // guarded by mutex_
};

REGISTER_KERNEL_BUILDER(Name("AscParseExample").Device(tensorflow::DEVICE_CPU), ParseExampleOp);

}  // namespace ascpipe
