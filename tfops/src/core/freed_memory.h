// Settings of malloc that keep memory from one step to the next.
#ifndef ASCPIPE_CORE_FREED_MEMORY_H_
#define ASCPIPE_CORE_FREED_MEMORY_H_

namespace ascpipe {

// Makes malloc keep freed memory for the rest of the process.  The outputs of a step take megabytes, which glibc would
// otherwise return to the system after each step and page in again.  Does nothing, and returns false, if the
// environment has settings of malloc for this (variables of mallopt(3), or GLIBC_TUNABLES).
bool KeepFreedMemory();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FREED_MEMORY_H_
