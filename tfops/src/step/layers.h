// Grouping of ops that may be merged.
#ifndef ASCPIPE_STEP_LAYERS_H_
#define ASCPIPE_STEP_LAYERS_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "step/step.h"

namespace ascpipe {
namespace step {

template <typename Each>
Items ItemsOf(const std::vector<Each>& all, const std::vector<int>& numbers) {
  Items items;
  for (const int number : numbers) items.push_back(all[At(number)].item);
  return items;
}

// Moves all elements of `from` to the end of `to`.
template <typename Each>
void TakeOver(std::vector<Each>* to, std::vector<Each>* from) {
  if (to == from) return;
  to->insert(to->end(), from->begin(), from->end());
  from->clear();
}

// Divides ops of `all` into as few layers as possible. The layers contain the ops that are outside loops and for which
// `may` returns true. All ops of a layer have the same device and branch, and do not depend on each other. Calls
// `merge` for each layer that has more than one op. The order is read again after each call, because `merge` may change
// the order.
template <typename Each, typename May, typename Merge>
void ForEachLayer(const Step& step, std::vector<Each>* all, const May& may, const Merge& merge) {
  const auto op = [&](int number) -> const Op& { return step.ops[At((*all)[At(number)].item)]; };
  std::map<std::pair<int, int>, std::vector<int>> groups;
  for (int number = 0; number < static_cast<int>(all->size()); ++number) {
    const Op& each = op(number);
    if (each.branch >= 0 && may((*all)[At(number)])) groups[{each.device, each.branch}].push_back(number);
  }
  for (auto& entry : groups) {
    std::vector<int>& left = entry.second;
    std::stable_sort(left.begin(), left.end(), [&](int a, int b) { return op(a).name < op(b).name; });
    while (left.size() > 1) {
      const Items items = ItemsOf(*all, left);
      const auto rest = std::stable_partition(
          left.begin(), left.end(), [&](int number) { return !step.order.IsAfterAny((*all)[At(number)].item, items); });
      const std::vector<int> layer(left.begin(), rest);
      if (layer.empty()) return;  // a cycle: each op comes after another op
      left.erase(left.begin(), rest);
      if (layer.size() > 1) merge(layer);
    }
  }
}

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_LAYERS_H_
