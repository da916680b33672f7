// Lease of the trainer: a shared/exclusive lock on all tables.
//
// A training step holds the lease exclusively from its first claim to its end. Evaluations share the lease. There is
// only one lease for all tables, because with one lease per table, two steps could wait for each other's leases.
#ifndef ASCPIPE_CORE_LEASE_H_
#define ASCPIPE_CORE_LEASE_H_

#include <cstdint>
#include <mutex>
#include <set>

namespace ascpipe {

class Lease {
 public:
  using Step = std::int64_t;  // > 0, never reused

  // Releases the share of a step that will train. Returns true if the step held a share. Call GiveUpShare before any
  // wait; otherwise the step would deadlock with an earlier step that needs the lease exclusively.
  bool GiveUpShare(Step step);
  // Tries to acquire the lease exclusively. After the first try, no other step gets a new share before `step` has the
  // lease.
  bool TryExclusive(Step step);
  // Tries to share the lease. TryShare always succeeds for the exclusive holder.
  bool TryShare(Step step);
  // Releases the lease of a step and withdraws the step's pending request.
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
