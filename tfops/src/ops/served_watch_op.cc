// Ops of a SavedModel whose tables are updated from a directory. AscOpenWatchedTable opens the files of the tables when
// the model is loaded, and AscStartServedWatch applies the updates. AscServedVersion chooses the version of a step, and
// AscWatchedLookup looks up rows in the chosen version.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bridge/parallel.h"
#include "bridge/served_lookup.h"
#include "bridge/served_watch.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/lib/core/refcount.h"

REGISTER_OP("AscServedWatch")
    .Output("watch: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Returns the handle of the tables that are updated together from a directory.

watch: Scalar handle.
shared_name: Lookups with the same name share the tables. Each checkpoint and each directory need their own name.
)doc");

REGISTER_OP("AscOpenWatchedTable")
    .Input("watch: resource")
    .Input("path: string")
    .Attr("table: string")
    .Attr("seal: int")
    .Attr("directory: string")
    .Attr("every_s: float")
    .Attr("step: int")
    .Attr("checkpoint: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Maps the file of a table, and verifies the whole file. Does nothing if the table is already open.

watch: Handle of AscServedWatch.
path: string scalar, a local file.
table: Name of the table in the updates.
seal: CRC-32 of the checksums of the expected file, in [0, 2^32).
directory: Local directory with updates. It may be created later.
every_s: Interval in seconds at which the directory is read.
step: Step of the checkpoint in the file.
checkpoint: Digest of the manifest of this checkpoint, 64 hexadecimal digits.
)doc");

REGISTER_OP("AscStartServedWatch")
    .Input("watch: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Applies the updates in the directory, and starts the thread that applies later updates.

watch: Handle of AscServedWatch, whose tables are open.
)doc");

REGISTER_OP("AscServedVersion")
    .Input("watch: resource")
    .Output("snapshot: variant")
    .Output("step: int64")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns the current version of the tables. Lookups of the snapshot read this version, also if an update is applied
before they run.

watch: Handle of AscServedWatch.
snapshot: Scalar, the version for AscWatchedLookup.
step: Scalar, the training step of the version.
)doc");

REGISTER_OP("AscWatchedLookup")
    .Input("snapshot: variant")
    .Input("keys: T")
    .Input("default_row: float")
    .Output("rows: float")
    .Output("found: bool")
    .Attr("T: {int32, int64}")
    .Attr("table: string")
    .Attr("dim: int >= 1")
    .SetShapeFn(ascpipe::ShapesOfServedLookup)
    .Doc(R"doc(
Looks up the rows of keys in one version of a table.

snapshot: Output of AscServedVersion.
keys: A tensor of any shape.
default_row: float[dim], or a float scalar for all columns: the row of a key that the table does not contain.
rows: float, the shape of the keys followed by dim.
found: bool, with the shape of the keys: true if the key has a row.
table: Name of the table.
dim: Length of a row of the table.
)doc");

REGISTER_OP("AscServedUpdates")
    .Input("watch: resource")
    .Output("figures: int64")
    .Output("problem: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(5));
      c->set_output(1, c->Scalar());
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns counters of updates.

watch: Handle of AscServedWatch.
figures: int64[5]: training step and sequence of the current version, number of applied updates, number of refused
  updates, number of keys of updates in memory.
problem: Scalar, the text of the last refusal, or an empty string.
)doc");

namespace ascpipe {

namespace {

int Nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

// Converts hexadecimal digits to bytes. Returns false if `digits` is not a digest.
bool DigestOf(const std::string& digits, std::string* bytes) {
  if (digits.size() != 2 * kUpdateIdBytes) return false;
  bytes->clear();
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    const int upper = Nibble(digits[at]), lower = Nibble(digits[at + 1]);
    if (upper < 0 || lower < 0) return false;
    bytes->push_back(static_cast<char>(16 * upper + lower));
  }
  return true;
}

// Returns the watch of input 0. The caller owns one reference.
tensorflow::Status OpenWatch(tensorflow::OpKernelContext* ctx, ServedWatch** watch) {
  const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 0);
  if (tensorflow::LookupResource(ctx, handle, watch).ok()) return OkStatus();
  return Refuse(Code::kFailedPrecondition, "tables ", handle.name(),
                " are not open: load the SavedModel with its init op, or run tf.tables_initializer() before the first "
                "lookup");
}

}  // namespace

class OpenWatchedTableOp : public tensorflow::OpKernel {
 public:
  explicit OpenWatchedTableOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    tensorflow::int64 step;
    std::string checkpoint;
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("seal", &seal_));
    OP_REQUIRES_OK(construction, construction->GetAttr("directory", &directory_));
    OP_REQUIRES_OK(construction, construction->GetAttr("every_s", &every_s_));
    OP_REQUIRES_OK(construction, construction->GetAttr("step", &step));
    OP_REQUIRES_OK(construction, construction->GetAttr("checkpoint", &checkpoint));
    OP_REQUIRES(
        construction, every_s_ >= 0.001f && every_s_ <= 1e6f,
        Refuse(Code::kInvalidArgument, "AscOpenWatchedTable: every_s is ", every_s_, ", expected 0.001 to 1000000"));
    OP_REQUIRES(construction, DigestOf(checkpoint, &at_.id),
                Refuse(Code::kInvalidArgument, "AscOpenWatchedTable: checkpoint is not a digest of 64 digits"));
    at_.step = step;
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& path = ctx->input(1);
    OP_REQUIRES(ctx, path.dims() == 0,
                Refuse(Code::kInvalidArgument, "AscOpenWatchedTable: path has shape ", path.shape().DebugString(),
                       ", expected a scalar"));
    ServedWatch* watch = nullptr;
    const auto create = [this](ServedWatch** created) {
      *created = new ServedWatch(directory_, every_s_, at_);
      return OkStatus();
    };
    OP_REQUIRES_OK(
        ctx, tensorflow::LookupOrCreateResource<ServedWatch>(ctx, tensorflow::HandleFromInput(ctx, 0), &watch, create));
    tensorflow::core::ScopedUnref unref(watch);
    if (watch->watch()->Has(table_)) return;
    std::unique_ptr<TableFile> file;
    const auto share = [ctx](std::int64_t total, std::int64_t block, const Blocks::Work& work) {
      ShareBlocks(ctx, total, block, work);
    };
    OP_REQUIRES_OK(
        ctx, ToStatus(TableFile::Open(path.scalar<TensorString>()(), static_cast<std::uint32_t>(seal_), share, &file)));
    watch->watch()->Add(table_, std::move(file));
  }

 private:
  std::string table_, directory_;
  tensorflow::int64 seal_;
  float every_s_;
  ServedAt at_;
};

class StartServedWatchOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ServedWatch* watch = nullptr;
    OP_REQUIRES_OK(ctx, OpenWatch(ctx, &watch));
    tensorflow::core::ScopedUnref unref(watch);
    watch->watch()->Start();
  }
};

class ServedVersionOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ServedWatch* watch = nullptr;
    OP_REQUIRES_OK(ctx, OpenWatch(ctx, &watch));
    tensorflow::core::ScopedUnref unref(watch);
    const std::shared_ptr<const ServedVersion> version = watch->watch()->Current();
    OP_REQUIRES(ctx, version != nullptr,
                Refuse(Code::kFailedPrecondition, "the updates of served tables were not started: run the whole "
                                                  "tf.tables_initializer()"));
    tensorflow::Tensor *snapshot, *step;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &snapshot));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, tensorflow::TensorShape({}), &step));
    snapshot->scalar<tensorflow::Variant>()() = ServedSnapshot{version};
    step->scalar<tensorflow::int64>()() = version->at.step;
  }
};

class WatchedLookupOp : public tensorflow::OpKernel {
 public:
  explicit WatchedLookupOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& input = ctx->input(0);
    const ServedSnapshot* const snapshot =
        input.dims() == 0 ? input.scalar<tensorflow::Variant>()().get<ServedSnapshot>() : nullptr;
    OP_REQUIRES(ctx, snapshot != nullptr && snapshot->version != nullptr,
                Refuse(Code::kInvalidArgument, "AscWatchedLookup: snapshot is not an output of AscServedVersion"));
    const auto table = snapshot->version->tables.find(table_);
    OP_REQUIRES(ctx, table != snapshot->version->tables.end(),
                Refuse(Code::kFailedPrecondition, "table ", table_,
                       " is not open: load the SavedModel with its init op, or run tf.tables_initializer() before the "
                       "first lookup"));
    LookUpServed(ctx, table_, table->second, dim_);
  }

 private:
  std::string table_;
  tensorflow::int64 dim_;
};

class ServedUpdatesOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ServedWatch* watch = nullptr;
    OP_REQUIRES_OK(ctx, OpenWatch(ctx, &watch));
    tensorflow::core::ScopedUnref unref(watch);
    const std::shared_ptr<const ServedVersion> version = watch->watch()->Current();
    const UpdateWatch::Figures figures = watch->watch()->figures();
    tensorflow::Tensor *numbers, *problem;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({5}), &numbers));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, tensorflow::TensorShape({}), &problem));
    const ServedAt at = version == nullptr ? ServedAt() : version->at;
    const std::int64_t values[] = {at.step, at.sequence, figures.applied, figures.refused, figures.kept_keys};
    for (int i = 0; i < 5; ++i) numbers->flat<tensorflow::int64>()(i) = values[i];
    problem->scalar<TensorString>()() = Printable(figures.problem);
  }
};

REGISTER_KERNEL_BUILDER(Name("AscServedWatch").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<ServedWatch>);
REGISTER_KERNEL_BUILDER(Name("AscOpenWatchedTable").Device(tensorflow::DEVICE_CPU), OpenWatchedTableOp);
REGISTER_KERNEL_BUILDER(Name("AscStartServedWatch").Device(tensorflow::DEVICE_CPU), StartServedWatchOp);
REGISTER_KERNEL_BUILDER(Name("AscServedVersion").Device(tensorflow::DEVICE_CPU), ServedVersionOp);
REGISTER_KERNEL_BUILDER(Name("AscWatchedLookup").Device(tensorflow::DEVICE_CPU), WatchedLookupOp);
REGISTER_KERNEL_BUILDER(Name("AscServedUpdates").Device(tensorflow::DEVICE_CPU), ServedUpdatesOp);

}  // namespace ascpipe
