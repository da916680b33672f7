// Detection of forked children of the trainer.
//
// The child handler of pthread_atfork sets a global atomic flag before any other code of the child runs.
#ifndef ASCPIPE_CORE_FORK_H_
#define ASCPIPE_CORE_FORK_H_

namespace ascpipe {

// Returns true in a forked child of the trainer. The child has neither our threads nor our mappings.
bool InForkedChild();
// Registers the fork handler. Further calls have no effect.
void WatchForks();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FORK_H_
