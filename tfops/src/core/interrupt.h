// Counts Ctrl-C without taking it away from the user's program.
//
// TensorFlow returns from a run only when its ops are done, so Python's handler alone would act after the
// wait, not during it.  All functions may be called by any thread.
#ifndef ASCPIPE_CORE_INTERRUPT_H_
#define ASCPIPE_CORE_INTERRUPT_H_

#include <cstdint>

namespace ascpipe {

// Interrupts since the handler was first installed.
std::uint64_t InterruptCount();

// Installs a handler that counts, then calls the handler that was installed before.
void ChainInterrupt();
// Removes it again, unless the program has installed another handler since.
void UnchainInterrupt();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INTERRUPT_H_
