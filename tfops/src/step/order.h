// Partial order of the ops of a step. The rules change the order when they merge ops or add control edges.
#ifndef ASCPIPE_STEP_ORDER_H_
#define ASCPIPE_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ascpipe {
namespace step {

using Item = int;  // index of an op that is ordered or merged
using Items = std::vector<Item>;

inline std::size_t At(int number) { return static_cast<std::size_t>(number); }

// Partial order of items. The order is transitively closed.
class Order {
 public:
  explicit Order(int count = 0);

  int count() const { return static_cast<int>(merged_.size()); }

  // Returns the item into which `item` was merged, or `item` itself if it was not merged.
  Item Of(Item item) const;

  bool IsAfter(Item item, Item first) const { return Has(Of(first), Of(item)); }
  bool IsAfterAny(Item item, const Items& first) const;
  bool AreApart(const Items& items) const;  // true if no item comes after another item

  // Records that `item` comes after `first`, without restoring the closure. Before the first query, all calls of Know
  // together must describe a transitively closed order.
  void Know(Item first, Item item) { Set(first, item); }

  // Records that `item` comes after `first`, and restores the closure.
  void Add(Item first, Item item);

  // Merges items into the first item. The items must not depend on each other.
  void Merge(const Items& items);

 private:
  using Word = std::uint64_t;
  using Row = std::vector<Word>;

  bool Has(Item first, Item item) const { return (after_[At(first)][At(item) / 64] >> (item % 64) & 1) != 0; }
  void Set(Item first, Item item) { after_[At(first)][At(item) / 64] |= Word{1} << (item % 64); }
  // Records that all successors of `from` come after `item`.
  void TakeOver(Item item, Item from);
  // Records that the successors of `first` come after all predecessors of `first`.
  void Close(Item first);

  std::vector<Row> after_;  // by item: a bit for each of its successors
  Items merged_;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_ORDER_H_
