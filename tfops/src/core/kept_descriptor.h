// File descriptor that child processes do not inherit.
#ifndef ASCPIPE_CORE_KEPT_DESCRIPTOR_H_
#define ASCPIPE_CORE_KEPT_DESCRIPTOR_H_

namespace ascpipe {

// A child that outlives this process would keep the memory of inherited descriptors.  A forked child closes these
// descriptors first, and exec closes them.
class KeptDescriptor {
 public:
  // Duplicates `fd`; the caller still owns `fd`.
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
