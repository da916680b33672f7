// AscServedTable and AscOpenServedTable: a table of a SavedModel, and the op that opens its file when that is loaded.
#include <memory>

#include "bridge/parallel.h"
#include "bridge/served_table.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

REGISTER_OP("AscServedTable")
    .Output("table: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Names a table that is looked up in a file; AscOpenServedTable opens it.

table: scalar handle.
shared_name: the same for lookups that share the table, another for each other file.
)doc");

REGISTER_OP("AscOpenServedTable")
    .Input("table: resource")
    .Input("path: string")
    .Attr("seal: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Maps a table file and verifies all of it. Does nothing if the table is open already.

table: of AscServedTable.
path: string scalar, a local file.
seal: CRC-32 of the sums of the file that is wanted, in [0, 2^32).
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
    // Not under the lock of the resources: this reads the whole file.
    std::unique_ptr<TableFile> file;
    const auto share = [ctx](std::int64_t total, std::int64_t block, const Blocks::Work& work) {
      ShareBlocks(ctx, total, block, work);
    };
    OP_REQUIRES_OK(ctx, ToStatus(TableFile::Open(path.scalar<tensorflow::string>()(), static_cast<std::uint32_t>(seal_),
                                                 share, &file)));
    const tensorflow::Status created = tensorflow::CreateResource(ctx, handle, new ServedTable(std::move(file)));
    // Another run has opened the same file first.
    if (!tensorflow::errors::IsAlreadyExists(created)) OP_REQUIRES_OK(ctx, created);
  }

 private:
  tensorflow::int64 seal_;
};

REGISTER_KERNEL_BUILDER(Name("AscServedTable").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<ServedTable>);
REGISTER_KERNEL_BUILDER(Name("AscOpenServedTable").Device(tensorflow::DEVICE_CPU), OpenServedTableOp);

}  // namespace ascpipe
