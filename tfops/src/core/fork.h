// Detection of forked children of the trainer.
//
// The child handler of pthread_atfork sets a global atomic flag before any other code of the child runs.
#ifndef ASCPIPE_CORE_FORK_H_
#define ASCPIPE_CORE_FORK_H_

namespace ascpipe {

// Returns true in a forked child of the trainer. A forked child has no threads and no mappings of the trainer.
bool InForkedChild();
// Registers the fork handler. Further calls have no effect.
void WatchForks();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FORK_H_
