// AscServedTable is a table of a SavedModel. AscOpenServedTable opens the file of the table when the model is loaded.
// AscServedLookup and AscServedLookupFound look up rows of keys in the file.
#include <cstdint>
#include <memory>

#include "bridge/parallel.h"
#include "bridge/served_lookup.h"
#include "bridge/served_table.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/refcount.h"

REGISTER_OP("AscServedTable")
    .Output("table: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Returns the handle of a table that is looked up in a file. AscOpenServedTable opens the file.

table: Scalar handle.
shared_name: Lookups with the same name share the table. Each file needs its own name.
)doc");

REGISTER_OP("AscOpenServedTable")
    .Input("table: resource")
    .Input("path: string")
    .Attr("seal: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Maps a table file and verifies the whole file. Does nothing if the table is already open.

table: Handle of AscServedTable.
path: string scalar, a local file.
seal: CRC-32 of the checksums of the expected file, in [0, 2^32).
)doc");

REGISTER_OP("AscServedLookup")
    .Input("table: resource")
    .Input("keys: T")
    .Input("default_row: float")
    .Output("rows: float")
    .Attr("T: {int32, int64}")
    .Attr("dim: int >= 1")
    .SetShapeFn(ascpipe::ShapesOfServedLookup)
    .Doc(R"doc(
Looks up the rows of keys in a table that AscOpenServedTable has opened.

table: Handle of AscServedTable.
keys: A tensor of any shape.
default_row: float[dim], or a float scalar for all columns: the row of a key that the table does not contain.
rows: float, the shape of the keys followed by dim.
dim: Length of a row of the table.
)doc");

// AscServedLookupFound is a separate op instead of an output of AscServedLookup. TensorFlow cannot load a graph if a
// node lists fewer output shapes than its op has outputs. Models that older versions of ascpipe exported contain
// AscServedLookup nodes with only one output shape.
REGISTER_OP("AscServedLookupFound")
    .Input("table: resource")
    .Input("keys: T")
    .Input("default_row: float")
    .Output("rows: float")
    .Output("found: bool")
    .Attr("T: {int32, int64}")
    .Attr("dim: int >= 1")
    .SetShapeFn(ascpipe::ShapesOfServedLookup)
    .Doc(R"doc(
AscServedLookup that also returns which keys have a row in the table.

table, keys, default_row, rows, dim: See AscServedLookup.
found: bool, with the shape of the keys: true if the key has a row.
)doc");

namespace ascpipe {

class OpenServedTableOp : public tensorflow::OpKernel {
 public:
  explicit OpenServedTableOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("seal", &seal_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& path = ctx->input(1);
    OP_REQUIRES(ctx, path.dims() == 0,
                Refuse(Code::kInvalidArgument, "AscOpenServedTable: path has shape ", path.shape().DebugString(),
                       ", expected a scalar"));
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 0);
    ServedTable* table = nullptr;
    if (tensorflow::LookupResource(ctx, handle, &table).ok()) {
      table->Unref();
      return;
    }
    // The resource manager is not locked while the file is opened, because reading the whole file takes long.
    std::unique_ptr<TableFile> file;
    const auto share = [ctx](std::int64_t total, std::int64_t block, const Blocks::Work& work) {
      ShareBlocks(ctx, total, block, work);
    };
    OP_REQUIRES_OK(
        ctx, ToStatus(TableFile::Open(path.scalar<TensorString>()(), static_cast<std::uint32_t>(seal_), share, &file)));
    const tensorflow::Status created = tensorflow::CreateResource(ctx, handle, new ServedTable(std::move(file)));
    // Another session.run call may have opened the same file first.
    if (!tensorflow::errors::IsAlreadyExists(created)) OP_REQUIRES_OK(ctx, created);
  }

 private:
  tensorflow::int64 seal_;
};

// Kernel of AscServedLookup and AscServedLookupFound.
class ServedLookupOp : public tensorflow::OpKernel {
 public:
  explicit ServedLookupOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 0);
    ServedTable* table = nullptr;
    OP_REQUIRES(ctx, tensorflow::LookupResource(ctx, handle, &table).ok(),
                Refuse(Code::kFailedPrecondition, "table ", handle.name(),
                       " is not open: load the SavedModel with its "
                       "init op, or run tf.tables_initializer() before the first lookup"));
    tensorflow::core::ScopedUnref unref(table);
    LookUpServed(ctx, handle.name(), table->file(), dim_);
  }

 private:
  tensorflow::int64 dim_;
};

REGISTER_KERNEL_BUILDER(Name("AscServedTable").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<ServedTable>);
REGISTER_KERNEL_BUILDER(Name("AscOpenServedTable").Device(tensorflow::DEVICE_CPU), OpenServedTableOp);
REGISTER_KERNEL_BUILDER(Name("AscServedLookup").Device(tensorflow::DEVICE_CPU), ServedLookupOp);
REGISTER_KERNEL_BUILDER(Name("AscServedLookupFound").Device(tensorflow::DEVICE_CPU), ServedLookupOp);

}  // namespace ascpipe
