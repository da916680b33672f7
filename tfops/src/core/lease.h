// The one lease of a trainer: which steps may change, or read, what the tables hold now.
//
// A step that trains has it alone, from its first claim to its end; evaluations share it.  One lease for
// all tables: with a lease per table two steps that each hold one wait for each other for ever.
#ifndef ASCPIPE_CORE_LEASE_H_
#define ASCPIPE_CORE_LEASE_H_

#include <cstdint>
#include <mutex>
#include <set>

namespace ascpipe {

class Lease {
 public:
  using Step = std::int64_t;  // > 0, never reused

  // Tries to have it alone.  A step that has to wait for it gives up the share it holds, or two steps that
  // have read would wait for each other; and from then on nobody new gets a share before it.
  bool TryExclusive(Step step);
  // Tries to share it; the step that has it alone may always read.
  bool TryShare(Step step);
  // The end of a step: gives back whatever it holds or waits for.
  void Release(Step step);

  bool HoldsExclusive(Step step) const;
  Step holder() const;  // 0: nobody has it alone

 private:
  mutable std::mutex mutex_;
  Step exclusive_ = 0;
  std::set<Step> sharers_;
  std::set<Step> want_exclusive_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LEASE_H_
