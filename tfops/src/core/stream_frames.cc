// Layout and filling of a stream's frames.
#include <algorithm>
#include <cstring>

#include "core/atomics.h"
#include "core/stream.h"

namespace ascpipe {

namespace {
// Claim word of a frame that is being filled. No worker can claim such a frame, because no worker has the generation
// kFilling.
constexpr std::uint32_t kFilling = 0xffffffffu;
}  // namespace

// Returns the layout of a batch's frame. The layout does not depend on the frame's ticket and offset.
std::unique_ptr<FrameRecord> Stream::LayOut(const Batch& batch) const {
  const std::size_t tables = static_cast<std::size_t>(ring_.tables());
  std::unique_ptr<FrameRecord> record(new FrameRecord);
  record->frame.timestamp = batch.timestamp;
  record->parts.resize(tables);
  std::int64_t offset = static_cast<std::int64_t>(tables * sizeof(layout::Part));
  for (std::size_t table = 0; table < tables; ++table) {
    record->first_spec.push_back(record->specs.size());
    std::int64_t ids = 0;
    bool weighted = false;
    for (const FeatureIds& feature : batch.features) {
      if (feature.table != static_cast<int>(table)) continue;
      ids += feature.count;
      weighted = weighted || feature.weights != nullptr;
      if (feature.is_appended) continue;
      layout::Spec spec = {};
      spec.count = feature.count;
      spec.rank = static_cast<std::int64_t>(feature.shape.size());
      std::copy(feature.shape.begin(), feature.shape.end(), spec.shape);
      record->specs.push_back(spec);
    }
    layout::Part* const part = &record->parts[table];
    const std::size_t features = record->specs.size() - record->first_spec.back();
    offset = layout::PlacePart(part, ids, static_cast<std::int64_t>(features), offset);
    if (weighted) part->weights = part->counts;  // a table worker writes the counts later
  }
  record->frame.length = layout::Align(offset);
  return record;
}

void Stream::Fill(const Batch& batch, const FrameRecord& record) const {
  const std::int64_t number = record.frame.number;
  layout::Frame* frame = ring_.frame(number);
  StoreRelease(&frame->claim, kFilling);
  frame->number = number;
  frame->ticket = record.frame.ticket;
  frame->offset = record.frame.offset;
  frame->length = record.frame.length;
  frame->timestamp = record.frame.timestamp;
  StoreRelease(&frame->closed, 0u);
  StoreRelease(&frame->trained, 0u);
  std::uint8_t* const base = ring_.base() + record.frame.offset;
  for (int index = 0; index < ring_.tables(); ++index) {
    const layout::Part& part = record.parts[static_cast<std::size_t>(index)];
    reinterpret_cast<layout::Part*>(base)[index] = part;
    const layout::Spec* const specs = record.specs.data() + record.first_spec[static_cast<std::size_t>(index)];
    std::copy(specs, specs + part.spec_count, reinterpret_cast<layout::Spec*>(base + part.specs));
    FillPart(batch, index, base, part);
    StoreRelease(ring_.word(index, number), static_cast<std::uint32_t>(layout::kSubmitted));
  }
}

void Stream::FillPart(const Batch& batch, int index, std::uint8_t* base, const layout::Part& part) const {
  std::int64_t* out = reinterpret_cast<std::int64_t*>(base + part.ids);
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != index) continue;
    if (feature.is_int32) {
      const std::int32_t* from = static_cast<const std::int32_t*>(feature.data);
      for (std::int64_t id = 0; id < feature.count; ++id) out[id] = from[id];
    } else if (feature.count > 0) {
      std::memcpy(out, feature.data, static_cast<std::size_t>(feature.count) * sizeof(std::int64_t));
    }
    out += feature.count;
  }
  if (part.weights != 0) FillWeights(batch, index, reinterpret_cast<std::int32_t*>(base + part.weights));
}

void Stream::FillWeights(const Batch& batch, int index, std::int32_t* out) const {
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != index) continue;
    if (feature.weights == nullptr) {
      std::fill_n(out, feature.count, 1);
    } else if (feature.count > 0) {
      std::memcpy(out, feature.weights, static_cast<std::size_t>(feature.count) * sizeof(std::int32_t));
    }
    out += feature.count;
  }
}

}  // namespace ascpipe
