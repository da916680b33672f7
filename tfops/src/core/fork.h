// Whether this process is a child that the trainer has forked.
//
// It is a fact of the process and so a global: one atomic flag, which the child handler of pthread_atfork sets before
// any other code of the child runs.
#ifndef ASCPIPE_CORE_FORK_H_
#define ASCPIPE_CORE_FORK_H_

namespace ascpipe {

// True in a child that a fork of the trainer made: it has none of our threads and none of our mappings.
bool InForkedChild();
// Registers the fork handler; further calls do nothing.
void WatchForks();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FORK_H_
