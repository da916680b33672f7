// What the trainer has written of one frame, in its own memory.
//
// Any process of a session can write everywhere in a ring, and one that has gone mad does.  So the trainer never reads
// from there where a frame and its arrays lie, nor how many ids they are of: it has laid them out itself.
#ifndef ASCPIPE_CORE_FRAME_RECORD_H_
#define ASCPIPE_CORE_FRAME_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cycle_ids.h"
#include "core/layout.h"

namespace ascpipe {

struct FrameRecord {
  layout::Frame frame = {};             // number, ticket, offset, length and timestamp
  std::vector<layout::Part> parts;      // [tables]: counts of ids and features, and where the arrays lie
  std::vector<layout::Spec> specs;      // of the features of all parts
  std::vector<std::size_t> first_spec;  // [tables]: the first spec of each part
  CyclePlace cycle;                     // where the batch is in the cycles of gradient accumulation
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FRAME_RECORD_H_
