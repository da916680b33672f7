// Settings of malloc that keep freed memory between steps.
#ifndef ASCPIPE_CORE_FREED_MEMORY_H_
#define ASCPIPE_CORE_FREED_MEMORY_H_

namespace ascpipe {

// Makes malloc keep freed memory until the process exits. The outputs of a step need megabytes of memory. By default,
// glibc returns this memory to the system after each step and allocates it again. Returns false and changes nothing if
// the environment sets these parameters of malloc (with the variables of mallopt(3) or with GLIBC_TUNABLES).
bool KeepFreedMemory();

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FREED_MEMORY_H_
