// Counts SIGINT and passes the signal on to the user's handler.
//
// TensorFlow returns from a run only when its ops have finished, and Python's handler runs only after this return.
// Therefore waiting ops check InterruptCount, and end with CANCELLED when the count changes. All functions are
// thread-safe.
#ifndef ASCPIPE_CORE_INTERRUPT_H_
#define ASCPIPE_CORE_INTERRUPT_H_

#include <cstdint>

namespace ascpipe {

// Returns the number of interrupts since the handler was first installed.
std::uint64_t InterruptCount();

// Installs a handler that counts the interrupt and then calls the previous handler.
void ChainInterrupt();
// Restores the previous handler, unless the program has installed another handler since then.
void UnchainInterrupt();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INTERRUPT_H_
