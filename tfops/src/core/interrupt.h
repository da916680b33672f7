// Counts Ctrl-C without taking it away from the user's program.
//
// TensorFlow returns from a run only when its ops are done, so Python's handler alone would act after the
// wait, not during it.
#ifndef ASCPIPE_CORE_INTERRUPT_H_
#define ASCPIPE_CORE_INTERRUPT_H_

#include <cstdint>

namespace ascpipe {

std::uint64_t InterruptCount();

// Puts our handler in front of the one in place; it counts, then does what that one does.
void ChainInterrupt();
// Takes it out again, unless somebody has put another one in front of it since.
void UnchainInterrupt();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INTERRUPT_H_
