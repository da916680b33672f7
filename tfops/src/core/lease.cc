#include "core/lease.h"

namespace ascpipe {

bool Lease::GiveUpShare(Step step) {
  std::lock_guard<std::mutex> lock(mutex_);
  return sharers_.erase(step) != 0;
}

bool Lease::TryExclusive(Step step) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (exclusive_ == step) return true;
  sharers_.erase(step);
  if (exclusive_ != 0 || !sharers_.empty()) {
    want_exclusive_.insert(step);
    return false;
  }
  want_exclusive_.erase(step);
  exclusive_ = step;
  return true;
}

bool Lease::TryShare(Step step) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (exclusive_ == step || sharers_.count(step) != 0) return true;
  if (exclusive_ != 0 || !want_exclusive_.empty()) return false;
  sharers_.insert(step);
  return true;
}

void Lease::Release(Step step) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (exclusive_ == step) exclusive_ = 0;
  sharers_.erase(step);
  want_exclusive_.erase(step);
}

bool Lease::HoldsExclusive(Step step) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return exclusive_ == step;
}

Lease::Step Lease::holder() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return exclusive_;
}

}  // namespace ascpipe
