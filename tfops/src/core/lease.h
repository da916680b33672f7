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

  // A step that is going to train holds no share while it waits, for whatever it waits: an earlier step may
  // need the lease alone before it can end, and two steps that have read would wait for each other.
  // True: it held one, and others may go on.
  bool GiveUpShare(Step step);
  // Tries to have it alone.  From the first try on nobody new gets a share before the step.
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
