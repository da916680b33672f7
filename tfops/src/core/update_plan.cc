#include "core/update_plan.h"

namespace ascpipe {

namespace {

// Appends updates to the plan, beginning with updates[next]. A delta must be based on the version that precedes it; for
// the first update, this version is `id`. If a delta has another base, Follow sets plan->refused to the index of the
// delta and returns.
void Follow(const std::vector<UpdateInfo>& updates, std::size_t next, std::string id, UpdatePlan* plan) {
  for (; next < updates.size(); ++next) {
    if (!updates[next].is_full && updates[next].base_id != id) {
      plan->refused = static_cast<std::int64_t>(next);
      return;
    }
    plan->apply.push_back(next);
    id = updates[next].id;
  }
}

// Returns the index of the newest full update in updates[begin:], or updates.size() if there is no full update.
std::size_t NewestFull(const std::vector<UpdateInfo>& updates, std::size_t begin) {
  for (std::size_t at = updates.size(); at > begin; --at) {
    if (updates[at - 1].is_full) return at - 1;
  }
  return updates.size();
}

}  // namespace

UpdatePlan PlanUpdates(const ServedAt& at, const std::vector<UpdateInfo>& updates) {
  UpdatePlan plan;
  std::size_t begin = 0;
  while (begin < updates.size() && updates[begin].sequence <= at.sequence) ++begin;
  bool continues = at.sequence > 0;
  if (!continues) {
    for (std::size_t one = 0; one < updates.size(); ++one) {
      if (updates[one].id != at.id && (updates[one].is_full || updates[one].base_id != at.id)) continue;
      continues = true;
      begin = updates[one].id == at.id ? one + 1 : one;
      if (begin > one) plan.sequence = updates[one].sequence;
    }
  }
  const std::size_t full = NewestFull(updates, begin);
  if (full < updates.size()) {
    begin = full;
  } else if (!continues) {
    if (!updates.empty()) plan.refused = 0;
    return plan;
  }
  Follow(updates, begin, at.id, &plan);
  if (!continues && updates[plan.apply.back()].step <= at.step) plan = UpdatePlan();
  return plan;
}

}  // namespace ascpipe
