#include "bridge/bag_inputs.h"

#include "bridge/compatibility.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::Status;
using tensorflow::Tensor;

Status ReadCombiner(const std::string& name, Combiner* combiner) {
  if (name == "sum") {
    *combiner = Combiner::kSum;
  } else if (name == "mean") {
    *combiner = Combiner::kMean;
  } else if (name == "sqrtn") {
    *combiner = Combiner::kSqrtn;
  } else {
    return Refuse(Code::kInvalidArgument, "combiner '", name, "' is not sum, mean or sqrtn");
  }
  return OkStatus();
}

Status ReadBags(const std::string& op, const Tensor& splits, const Tensor* weights, std::int64_t positions,
                Bags* bags) {
  if (splits.dims() != 1 || splits.NumElements() == 0) {
    return Refuse(kE324, op, ": row splits have shape ", splits.shape().DebugString(), ", expected [bags + 1]. ",
                  "This step trained nothing");
  }
  bags->splits = reinterpret_cast<const std::int64_t*>(splits.flat<tensorflow::int64>().data());
  bags->count = splits.NumElements() - 1;
  bags->positions = positions;
  bags->order = kSumOrder;
  const std::int64_t bad = FirstBadSplit(bags->splits, bags->count, positions);
  if (bad >= 0) {
    return Refuse(kE324, op, ": row split ", bags->splits[bad], " at ", bad, " of ", bags->count, " bags with ",
                  positions, " ids: row splits rise from 0 to the number of ids. This step trained nothing");
  }
  bags->weights = nullptr;
  if (weights == nullptr) return OkStatus();
  if (weights->dims() != 1 || weights->NumElements() != positions) {
    return Refuse(kE324, op, ": weights have shape ", weights->shape().DebugString(), " for ", positions,
                  " ids; each id has one weight. This step trained nothing");
  }
  bags->weights = weights->flat<float>().data();
  return OkStatus();
}

}  // namespace ascpipe
