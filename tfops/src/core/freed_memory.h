// Settings of malloc that keep freed memory between steps.
#ifndef ASCPIPE_CORE_FREED_MEMORY_H_
#define ASCPIPE_CORE_FREED_MEMORY_H_

namespace ascpipe {

// Makes malloc keep freed memory until the process exits. The outputs of a step need megabytes of memory. By default,
// glibc returns the memory of a step's outputs to the system after the step, and allocates it again in the next step.
// Returns false and changes nothing if the environment already sets parameters of malloc (with GLIBC_TUNABLES or the
// variables of mallopt(3)).
bool KeepFreedMemory();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FREED_MEMORY_H_
