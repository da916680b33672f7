// What malloc does with memory that a step frees and the next one takes again.
#ifndef ASCPIPE_CORE_FREED_MEMORY_H_
#define ASCPIPE_CORE_FREED_MEMORY_H_

namespace ascpipe {

// Makes malloc keep what is freed for the next step, for this process and from now on: the outputs of a step's ops are
// megabytes, which glibc otherwise returns to the system at the end of a step and takes again, page by page, in the
// next one.  Does nothing if the environment has settings of malloc for this (variables of mallopt(3), or
// GLIBC_TUNABLES); returns whether it did.
bool KeepFreedMemory();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FREED_MEMORY_H_
