#include "step/step_rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ascpipe {
namespace step {

namespace {

using Key = std::tuple<int, int, Items, std::string>;  // device, branch, waits, and a text that must be equal

class Groups {
 public:
  explicit Groups(Step* step) : step_(*step) {}

  void Add(Item item, int member, const std::string& what) {
    const Op& op = step_.ops[At(item)];
    if (op.branch < 0) return;
    Items waits;
    for (const Item wait : op.waits) waits.push_back(step_.order.Of(wait));
    std::sort(waits.begin(), waits.end());
    members_[Key(op.device, op.branch, waits, what)].push_back({item, member});
  }

  // Returns the groups that have several members. No member waits for another member of its group.
  std::vector<Group> Merged() {
    std::vector<Group> merged;
    for (const auto& entry : members_) {
      Group group;
      Items items;
      for (const auto& member : entry.second) {
        items.push_back(member.first);
        group.members.push_back(member.second);
      }
      if (items.size() < 2 || !step_.order.AreApart(items)) continue;
      step_.order.Merge(items);
      group.item = items.front();
      merged.push_back(group);
    }
    return merged;
  }

 private:
  Step& step_;
  std::map<Key, std::vector<std::pair<Item, int>>> members_;
};

}  // namespace

bool Sum::has_bags() const {
  return std::any_of(features.begin(), features.end(), [](const SumFeature& each) { return each.how.splits >= 0; });
}

void DecideGroups(Step* step, Layout* layout) {
  // Plans are not merged in a step with evaluations, because each plan has a separate position in the order.
  if (std::all_of(step->plans.begin(), step->plans.end(), [](const Plan& plan) { return plan.trains; })) {
    Groups plans(step);
    for (std::size_t i = 0; i < step->plans.size(); ++i) {
      const Plan& plan = step->plans[i];
      const std::string batch = std::to_string(plan.ticket) + " of " + std::to_string(plan.stream);
      if (plan.may_merge) plans.Add(plan.item, static_cast<int>(i), batch);
    }
    layout->plans = plans.Merged();
  }
  Groups updates(step);
  for (std::size_t i = 0; i < step->updates.size(); ++i) {
    const Update& update = step->updates[i];
    if (!update.formula.empty()) updates.Add(update.item, static_cast<int>(i), update.formula);
  }
  layout->updates = updates.Merged();
}

Layout Decide(Step step) {
  Layout layout;
  DecideReads(&step, &layout);
  DecideGroups(&step, &layout);
  DecideOrder(&step, &layout);
  return layout;
}

}  // namespace step
}  // namespace ascpipe
