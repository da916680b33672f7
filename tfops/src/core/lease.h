// The one lease of a trainer: a lock that says which steps may change, or read, the tables now.
//
// A step that trains has it alone, from its first claim to its end; evaluations share it.  One lease for
// all tables: with a lease per table, two steps that hold one each could deadlock.
#ifndef ASCPIPE_CORE_LEASE_H_
#define ASCPIPE_CORE_LEASE_H_

#include <cstdint>
#include <mutex>
#include <set>

namespace ascpipe {

class Lease {
 public:
  using Step = std::int64_t;  // > 0, never reused

  // A step that will train gives up its share before any wait: an earlier step may need the lease alone before it can
  // end, and two steps that have read would deadlock.  True: it held a share, and others may go on.
  bool GiveUpShare(Step step);
  // Tries to take it alone.  From the first try on, no new step gets a share before this one.
  bool TryExclusive(Step step);
  // Tries to share it; always true for the step that has it alone.
  bool TryShare(Step step);
  // The end of a step: gives back what it holds and withdraws what it waits for.
  void Release(Step step);

  bool HoldsExclusive(Step step) const;
  Step holder() const;  // 0: no step has it alone

 private:
  mutable std::mutex mutex_;
  Step exclusive_ = 0;
  std::set<Step> sharers_;
  std::set<Step> want_exclusive_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LEASE_H_
