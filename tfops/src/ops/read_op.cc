// AscLookup looks up the rows of all features of one table. AscRestoreRows looks up rows in a tensor that contains a
// copy of the batch's rows. AscRead looks up the rows of several tables. AscRead also combines bags, and concatenates
// rows with other columns.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "bridge/bag_inputs.h"
#include "bridge/compatibility.h"
#include "bridge/parallel.h"
#include "bridge/read_layout.h"
#include "bridge/read_outputs.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

tensorflow::Status ShapesOfLookup(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle rows, slots, fallback;
  const int k = c->num_outputs();
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &slots));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(2 + k), 1, &fallback));
  const auto dim = c->Vector(c->Dim(rows, 1));
  for (int i = 0; i < k; ++i) {
    tensorflow::shape_inference::ShapeHandle out;
    TF_RETURN_IF_ERROR(c->Concatenate(c->input(2 + i), dim, &out));
    c->set_output(i, out);
  }
  return ascpipe::OkStatus();
}

}  // namespace

REGISTER_OP("AscLookup")
    .Input("rows: Ref(float)")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("default_row: float")
    .Output("embeddings: k * float")
    .Attr("k: int >= 1")
    .Attr("table: int = -1")
    .SetShapeFn(ShapesOfLookup)
    .Doc(R"doc(
Looks up the rows of all features of one table: embeddings_j[...] = rows[slots[restore_j[...]]].

rows: float[device rows, dim], the table variable.
slots: int32[distinct ids] of AscNextPlan. Each is in [0, device rows), with 2^30 added for a padding key, or -1 for
  the default row. In evaluation, -2 - h is home row h of the table.
restore: int32 of any shape, one per feature, each value in [0, distinct ids), or -1 for the default row if a position
  has no id.
default_row: float[dim], or a float scalar for all columns.
embeddings: float, the shape of restore_j followed by dim.
k: Number of features.
table: Number of the table, required if slots may be codes of home rows. These rows are read in place, or from the
  checkpoint that the session reads instead.
)doc");

REGISTER_OP("AscRestoreRows")
    .Input("local: float")
    .Input("places: int32")
    .Input("restore: k * int32")
    .Input("default_row: float")
    .Output("embeddings: k * float")
    .Attr("k: int >= 1")
    .SetShapeFn(ShapesOfLookup)
    .Doc(R"doc(
Looks up rows in a copy of the rows of one batch: embeddings_j[...] = local[places[restore_j[...]]].

local: float[distinct ids, dim] of AscLocalRows.
places: int32[distinct ids] of AscLocalRows: a row of `local`, with 2^30 added for a padding key, or -1 for the default
  row.
restore, default_row, embeddings, k: See AscLookup.
)doc");

// AscRead is not stateful. AscRead has a different name for each set of fetches, and a session would keep a stateful
// kernel for each name.
REGISTER_OP("AscRead")
    .Input("rows: n * float")
    .Input("slots: n * int32")
    .Input("default_row: n * float")
    .Input("restore: k * int32")
    .Input("splits: b * int64")
    .Input("weights: w * float")
    .Input("others: m * float")
    .Output("embeddings: o * float")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("b: int >= 0")
    .Attr("w: int >= 0")
    .Attr("m: int >= 0")
    .Attr("o: int >= 1")
    .Attr("tables: list(int)")
    .Attr("sources: list(int)")
    .Attr("bags: list(int)")
    .Attr("weighted: list(int)")
    .Attr("combiners: list(string)")
    .Attr("max_norms: list(float)")
    .Attr("order: list(int)")
    .Attr("pieces: list(int)")
    .SetShapeFn(ascpipe::ShapesOfRead)
    .Doc(R"doc(
Looks up rows of several tables in one pass, and combines bags and concatenates columns.

The op replaces AscLookup, AscRestoreRows, AscCombine, and a concat of columns.

rows: float[any, dim], table variables, or the rows of one batch from AscForward or AscLocalRows.
slots: int32[distinct ids], one tensor per tensor of `rows`; see AscLookup.
default_row: One tensor per tensor of `rows`; see AscLookup.
restore: int32, one tensor per feature; see AscLookup.
splits: int64[bags + 1], from AscBagSplits.
weights: float[ids].
others: float[batch, columns], copied to the output.
embeddings: float. An output of one feature that is not combined has the shape of its restore index followed by dim. All
  other outputs are [batch, width]. In these outputs, a feature that is not combined has a restore index of shape
  [batch] or [batch, side by side], and a combined feature has one bag per row.
n: Number of sources of rows.
k: Number of features.
m: Number of other tensors.
o: Number of outputs.
tables: For each of `rows`, the attribute `table` of AscLookup.
sources: For each feature, the index of its source in `rows`.
bags: For each feature, the index of its splits; -1 if its rows are not combined.
weighted: For each feature, the index of its weights; -1 for none.
combiners: For each feature, sum, mean or sqrtn; ignored if the feature is not combined.
max_norms: For each feature, the attribute `max_norm` of AscCombine.
order: The pieces of all outputs in order: i for feature i, k + i for other tensor i. Each piece occurs once.
pieces: For each output, the number of its pieces in `order`.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;

// Kernel of all three ops. AscRestoreRows has no table, so none of its slots may be the code of a home row.
class ReadOp : public tensorflow::OpKernel {
 public:
  explicit ReadOp(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->HasAttr("sources") ? ReadTables(construction) : ReadTable(construction));
  }

  void Compute(OpKernelContext* ctx) override {
    const int n = layout_.source_count;
    std::deque<LookupSource> sources(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) {
      const std::size_t source = static_cast<std::size_t>(i);
      OP_REQUIRES_OK(ctx, sources[source].Read(ctx, i, n + i, tables_[source]));
      OP_REQUIRES_OK(ctx, sources[source].ReadDefault(ctx, layout_.default_row + i));
    }
    ReadFeatures features(known_.size());
    for (std::size_t i = 0; i < features.size(); ++i) {
      OP_REQUIRES_OK(ctx, ReadIds(ctx, static_cast<int>(i), sources, &features[i]));
    }
    std::vector<ReadOutput> outputs(layout_.outputs.size());
    std::vector<std::int64_t> ends;  // running total of the blocks of the outputs
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      OP_REQUIRES_OK(ctx, outputs[i].Begin(ctx, layout_, features, static_cast<int>(i)));
      ends.push_back(blocks += outputs[i].blocks());
    }
    std::vector<FirstBad> bad(features.size());
    ShareBlocks(ctx, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      auto at = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
      for (; begin < end; ++at) {
        const std::int64_t before = ends[at] - outputs[at].blocks(), last = std::min(end, ends[at]);
        outputs[at].Write(features, begin - before, last - before, &bad);
        begin = last;
      }
    });
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (bad[i].none()) continue;
      OP_REQUIRES_OK(
          ctx, features[i].source->BadRestore(type_string(), features[i].ids(), bad[i].at(), static_cast<int>(i)));
    }
  }

 private:
  // Attributes of a combined feature.
  struct Known {
    int weights = -1;
    Bags bags = {};
  };

  Status ReadTable(OpKernelConstruction* construction) {
    int k, table = -1;
    TF_RETURN_IF_ERROR(construction->GetAttr("k", &k));
    if (construction->HasAttr("table")) TF_RETURN_IF_ERROR(construction->GetAttr("table", &table));
    layout_ = LayoutOfTable(k);
    tables_ = {table};
    known_.resize(static_cast<std::size_t>(k));
    return OkStatus();
  }

  Status ReadTables(OpKernelConstruction* construction) {
    std::vector<tensorflow::int32> weighted;
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    TF_RETURN_IF_ERROR(ReadLayoutOf(construction, &layout_));
    TF_RETURN_IF_ERROR(construction->GetAttr("tables", &tables_));
    TF_RETURN_IF_ERROR(construction->GetAttr("weighted", &weighted));
    TF_RETURN_IF_ERROR(construction->GetAttr("combiners", &combiners));
    TF_RETURN_IF_ERROR(construction->GetAttr("max_norms", &max_norms));
    const std::size_t k = static_cast<std::size_t>(layout_.feature_count);
    const auto is_input = [this](int which) { return which < layout_.weights_count; };
    if (static_cast<int>(tables_.size()) != layout_.source_count || weighted.size() != k || combiners.size() != k ||
        max_norms.size() != k || !std::all_of(weighted.begin(), weighted.end(), is_input)) {
      return Refuse(Code::kInvalidArgument, type_string(), ": attributes do not fit ", k, " features, ",
                    layout_.source_count, " sources of rows and ", layout_.weights_count, " weights");
    }
    known_.resize(k);
    for (std::size_t i = 0; i < k; ++i) {
      if (layout_.bags[i] < 0) continue;
      TF_RETURN_IF_ERROR(ReadCombiner(combiners[i], &known_[i].bags.combiner));
      known_[i].bags.max_norm = max_norms[i];
      known_[i].weights = weighted[i];
    }
    return OkStatus();
  }

  Status ReadIds(OpKernelContext* ctx, int number, const std::deque<LookupSource>& sources,
                 ReadFeature* feature) const {
    const std::size_t i = static_cast<std::size_t>(number);
    *feature = {&sources[static_cast<std::size_t>(layout_.sources[i])], &ctx->input(layout_.restore + number),
                layout_.is_combined(number), known_[i].bags};
    if (!feature->is_combined) return OkStatus();
    const Tensor* const weights = known_[i].weights < 0 ? nullptr : &ctx->input(layout_.weights + known_[i].weights);
    return ReadBags(type_string(), ctx->input(layout_.splits + layout_.bags[i]), weights,
                    feature->restore->NumElements(), &feature->bags);
  }

  ReadLayout layout_;
  std::vector<tensorflow::int32> tables_;  // by source
  std::vector<Known> known_;               // by feature
};

REGISTER_KERNEL_BUILDER(Name("AscLookup").Device(tensorflow::DEVICE_CPU), ReadOp);
REGISTER_KERNEL_BUILDER(Name("AscRestoreRows").Device(tensorflow::DEVICE_CPU), ReadOp);
REGISTER_KERNEL_BUILDER(Name("AscRead").Device(tensorflow::DEVICE_CPU), ReadOp);

}  // namespace ascpipe
