// Layout of one frame in the trainer's private memory.
//
// A faulty process of a session can overwrite any part of a ring. Therefore the trainer uses its private copy of a
// frame's offsets and counts, and never reads them from the ring.
#ifndef ASCPIPE_CORE_FRAME_RECORD_H_
#define ASCPIPE_CORE_FRAME_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cycle_ids.h"
#include "core/layout.h"
#include "core/read_position.h"

namespace ascpipe {

struct FrameRecord {
  layout::Frame frame = {};             // number, ticket, offset, length and timestamp
  std::vector<layout::Part> parts;      // [tables]: counts of ids and features, and offsets of the arrays
  std::vector<layout::Spec> specs;      // specs of the features of all parts
  std::vector<std::size_t> first_spec;  // [tables]: the first spec of each part
  CyclePlace cycle;                     // position of the batch in the cycles of gradient accumulation
  ReadPosition read;                    // position of the dataset after the batch
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FRAME_RECORD_H_
