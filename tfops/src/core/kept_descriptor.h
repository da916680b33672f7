// A descriptor that the process keeps and its children do not.
#ifndef ASCPIPE_CORE_KEPT_DESCRIPTOR_H_
#define ASCPIPE_CORE_KEPT_DESCRIPTOR_H_

namespace ascpipe {

// A child inherits descriptors; if it outlived us, it would keep their memory.  A fork's child closes them before
// anything else, and a program that is executed has none.
class KeptDescriptor {
 public:
  // A duplicate of `fd`, which stays the caller's.
  explicit KeptDescriptor(int fd);
  ~KeptDescriptor() { Close(); }
  KeptDescriptor(const KeptDescriptor&) = delete;
  KeptDescriptor& operator=(const KeptDescriptor&) = delete;

  int get() const;  // -1: closed, or there are too many
  void Close();     // idempotent

 private:
  int place_ = -1;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_KEPT_DESCRIPTOR_H_
