#include "step/order.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ascpipe {
namespace step {

Order::Order(int count) : after_(At(count), Row(static_cast<std::size_t>(count + 63) / 64)), merged_(At(count)) {
  std::iota(merged_.begin(), merged_.end(), 0);
}

Item Order::Of(Item item) const {
  while (merged_[At(item)] != item) item = merged_[At(item)];
  return item;
}

bool Order::IsAfterAny(Item item, const Items& first) const {
  return std::any_of(first.begin(), first.end(), [=](Item one) { return IsAfter(item, one); });
}

bool Order::AreApart(const Items& items) const {
  return std::none_of(items.begin(), items.end(), [&](Item item) { return IsAfterAny(item, items); });
}

void Order::TakeOver(Item item, Item from) {
  Row& row = after_[At(item)];
  const Row& more = after_[At(from)];
  std::transform(row.begin(), row.end(), more.begin(), row.begin(), std::bit_or<Word>());
}

void Order::Close(Item first) {
  for (Item item = 0; item < count(); ++item) {
    if (Has(item, first)) TakeOver(item, first);
  }
}

void Order::Add(Item first, Item item) {
  first = Of(first);
  item = Of(item);
  if (Has(first, item)) return;
  TakeOver(first, item);
  Set(first, item);
  Close(first);
}

void Order::Merge(const Items& items) {
  const Item one = Of(items.front());
  for (const Item each : items) {
    const Item other = Of(each);
    if (other == one) continue;
    merged_[At(other)] = one;
    TakeOver(one, other);
    for (Item item = 0; item < count(); ++item) {
      if (Has(item, other)) Set(item, one);
    }
  }
  Close(one);
}

}  // namespace step
}  // namespace ascpipe
