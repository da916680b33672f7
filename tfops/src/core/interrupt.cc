#include "core/interrupt.h"

#include <signal.h>

#include <atomic>
#include <mutex>

namespace ascpipe {

namespace {

// The state is global, because a process has one handler per signal.
std::atomic<std::uint64_t> interrupts{0};
std::mutex chaining;      // guards `chained`, and changes of `before`
struct sigaction before;  // the handler reads it without a lock; it changes only while our handler is not installed
bool chained = false;

void OnInterrupt(int signal_number, siginfo_t* info, void* context) {
  interrupts.fetch_add(1);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal_number, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    sigaction(signal_number, &before, nullptr);
    raise(signal_number);
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal_number);
  }
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnInterrupt;
}

}  // namespace

std::uint64_t InterruptCount() { return interrupts.load(); }

void ChainInterrupt() {
  std::lock_guard<std::mutex> lock(chaining);
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0 || IsOurs(current)) return;
  if (current.sa_handler == SIG_IGN && (current.sa_flags & SA_SIGINFO) == 0)
    return;  // SIGINT is ignored in a background job
  before = current;
  struct sigaction ours = current;
  ours.sa_sigaction = OnInterrupt;
  ours.sa_flags = current.sa_flags | SA_SIGINFO;
  chained = sigaction(SIGINT, &ours, nullptr) == 0;
}

void UnchainInterrupt() {
  std::lock_guard<std::mutex> lock(chaining);
  struct sigaction current;
  if (!chained || sigaction(SIGINT, nullptr, &current) != 0 || !IsOurs(current)) return;
  sigaction(SIGINT, &before, nullptr);
  chained = false;
}

}  // namespace ascpipe
