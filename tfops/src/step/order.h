// What comes before what in the graph of a step, while ops are merged and ordered.
#ifndef ASCPIPE_STEP_ORDER_H_
#define ASCPIPE_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ascpipe {
namespace step {

using Item = int;  // an op that is ordered or merged: a number from 0 on
using Items = std::vector<Item>;

inline std::size_t At(int number) { return static_cast<std::size_t>(number); }

// A partial order of items that is always closed: what comes after something comes after all that is before this.
class Order {
 public:
  explicit Order(int count = 0);

  int count() const { return static_cast<int>(merged_.size()); }

  // The item that stands for this one and for those that were merged with it.
  Item Of(Item item) const;

  bool IsAfter(Item item, Item first) const { return Has(Of(first), Of(item)); }
  bool IsAfterAny(Item item, const Items& first) const;
  bool AreApart(const Items& items) const;  // none comes after another one

  // Says that an item comes after another one.  All calls together must describe a closed order before the first
  // question.
  void Know(Item first, Item item) { Set(first, item); }

  // Lets an item come after another one.
  void Add(Item first, Item item);

  // Makes one of several, of which none comes after another one: the first.
  void Merge(const Items& items);

 private:
  using Word = std::uint64_t;
  using Row = std::vector<Word>;

  bool Has(Item first, Item item) const { return (after_[At(first)][At(item) / 64] >> (item % 64) & 1) != 0; }
  void Set(Item first, Item item) { after_[At(first)][At(item) / 64] |= Word{1} << (item % 64); }
  // Lets what comes after `from` come after `item`.
  void TakeOver(Item item, Item from);
  // Lets all that comes after `first`, and before it, know what comes after it.
  void Close(Item first);

  std::vector<Row> after_;  // of each item, a bit for each that comes after it
  Items merged_;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_ORDER_H_
