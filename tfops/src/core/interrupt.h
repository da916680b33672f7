// Counts SIGINT and passes the signal on to the user's handler.
//
// Python's handler runs only after TensorFlow has returned from a run, and TensorFlow returns only when all ops have
// finished. Therefore waiting ops check InterruptCount, and end with CANCELLED when the count changes. All functions
// are thread-safe.
#ifndef ASCPIPE_CORE_INTERRUPT_H_
#define ASCPIPE_CORE_INTERRUPT_H_

#include <cstdint>

namespace ascpipe {

// Returns the number of interrupts since the handler was first installed.
std::uint64_t InterruptCount();

// Installs a handler that counts the interrupt and then calls the previous handler.
void ChainInterrupt();
// Restores the previous handler, unless the program has installed another handler since ChainInterrupt.
void UnchainInterrupt();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INTERRUPT_H_
