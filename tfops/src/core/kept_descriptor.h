// File descriptor that child processes do not inherit.
#ifndef ASCPIPE_CORE_KEPT_DESCRIPTOR_H_
#define ASCPIPE_CORE_KEPT_DESCRIPTOR_H_

namespace ascpipe {

// If a child process inherited the descriptors and outlived this process, the shared memory would stay allocated.
// Therefore the fork handler closes the descriptors in a forked child, and the kernel closes the descriptors on exec.
class KeptDescriptor {
 public:
  // Duplicates `fd`; the caller still owns `fd`.
  explicit KeptDescriptor(int fd);
  ~KeptDescriptor() { Close(); }
  KeptDescriptor(const KeptDescriptor&) = delete;
  KeptDescriptor& operator=(const KeptDescriptor&) = delete;

  int get() const;  // -1: closed, or too many descriptors are kept
  void Close();     // idempotent

 private:
  int place_ = -1;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_KEPT_DESCRIPTOR_H_
