// Lease of the trainer: a shared/exclusive lock on all tables.
//
// A training step holds the lease exclusively from its first claim to its end; evaluations share it.  If each
// table had a lease, two steps that hold one each could deadlock.
#ifndef ASCPIPE_CORE_LEASE_H_
#define ASCPIPE_CORE_LEASE_H_

#include <cstdint>
#include <mutex>
#include <set>

namespace ascpipe {

class Lease {
 public:
  using Step = std::int64_t;  // > 0, never reused

  // Releases the share of a step that will train; call it before any wait.  Otherwise the step would deadlock with an
  // earlier step that needs the lease exclusively.  Returns true if the step held a share.
  bool GiveUpShare(Step step);
  // Tries to take the lease exclusively.  After the first try, no new step gets a share before this step is served.
  bool TryExclusive(Step step);
  // Tries to share the lease; always succeeds for the exclusive holder.
  bool TryShare(Step step);
  // Releases the lease of a step and withdraws its pending request.
  void Release(Step step);

  bool HoldsExclusive(Step step) const;
  Step holder() const;  // the exclusive holder; 0: none

 private:
  mutable std::mutex mutex_;
  Step exclusive_ = 0;
  std::set<Step> sharers_;
  std::set<Step> want_exclusive_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LEASE_H_
