// Rules that order the readers and the writers of rows in a step.
#include <algorithm>
#include <iterator>
#include <utility>

#include "step/step_rules.h"

namespace ascpipe {
namespace step {

namespace {

struct RowReader {
  Item item = 0;
  Items updates;      // ops that update the variable that is read
  Items evaluations;  // evaluation plans that produce the slots
};

void AddTo(Items* all, const Items& more) {
  for (const Item item : more) {
    if (std::find(all->begin(), all->end(), item) == all->end()) all->push_back(item);
  }
}

class OrderRules {
 public:
  OrderRules(Step* step, Layout* layout) : step_(*step), order_(step->order), layout_(*layout) {}

  void Apply() {
    FindReaders();
    if (step_.changes.empty() || (readers_.empty() && step_.handle_reads.empty())) return;
    std::copy_if(readers_.begin(), readers_.end(), std::back_inserter(evaluations_),
                 [](const RowReader& reader) { return !reader.evaluations.empty(); });
    if (!evaluations_.empty()) OrderEvaluations();
    for (const RowReader& reader : readers_) ReadFirst({reader.item}, reader.updates);
    for (const HandleRead& read : step_.handle_reads) ReadFirst({read.item}, read.writes);
  }

 private:
  // ---- readers of rows

  // Adds the updates and evaluations of a lookup. Nothing is added for a lookup that reads a copy, because another op
  // has read the copied rows from the table.
  void AddLookup(RowReader* reader, const Lookup& lookup) const {
    if (lookup.is_copy) return;
    AddTo(&reader->updates, lookup.updates);
    AddTo(&reader->evaluations, lookup.evaluations);
  }

  void FindReaders() {
    std::vector<bool> is_read(step_.features.size());
    for (const Read& read : layout_.reads) {
      RowReader reader;
      reader.item = read.item;
      for (const Output& output : read.outputs) {
        for (const Piece& piece : output.pieces) {
          const int feature = piece.bag >= 0 ? step_.bags[At(piece.bag)].feature : piece.feature;
          if (feature < 0) continue;
          is_read[At(feature)] = true;
          AddLookup(&reader, step_.lookups[At(step_.features[At(feature)].lookup)]);
        }
      }
      readers_.push_back(reader);
    }
    for (const int bag : layout_.weight_gradients) {
      const int feature = step_.bags[At(bag)].feature;
      is_read[At(feature)] = true;
      readers_.push_back({step_.bags[At(bag)].item, {}, {}});
      AddLookup(&readers_.back(), step_.lookups[At(step_.features[At(feature)].lookup)]);
    }
    std::vector<bool> is_replaced(step_.lookups.size());
    for (std::size_t i = 0; i < is_read.size(); ++i) {
      if (is_read[i]) is_replaced[At(step_.features[i].lookup)] = true;
    }
    for (std::size_t i = 0; i < step_.lookups.size(); ++i) {
      if (is_replaced[i] || step_.lookups[i].is_copy) continue;
      readers_.push_back({step_.lookups[i].item, {}, {}});
      AddLookup(&readers_.back(), step_.lookups[i]);
    }
    for (const SumGroup& group : layout_.sums) {
      readers_.push_back({group.item, {}, {}});
      for (const int sum : group.sums) {
        AddTo(&readers_.back().updates, step_.sums[At(sum)].updates);
        AddTo(&readers_.back().evaluations, step_.sums[At(sum)].evaluations);
      }
    }
  }

  // ---- control edges

  void Before(Item first, Item item) {
    order_.Add(first, item);
    const std::pair<Item, Item> edge(order_.Of(first), order_.Of(item));
    if (std::find(layout_.order.begin(), layout_.order.end(), edge) == layout_.order.end())
      layout_.order.push_back(edge);
  }

  // Adds an edge from every reader to every writer on which the reader does not depend. An edge is added even if the
  // writer already depends on the reader, because the layout may remove the existing path. For example, the existing
  // path may lead through a shape or another feature of the lookup.
  void ReadFirst(const Items& readers, const Items& writers) {
    for (const Item reader : readers) {
      for (const Item writer : writers) {
        // No control edge can lead into a loop. An update in a loop waits for the inputs of the loop.
        const bool same_frame = step_.ops[At(reader)].frame == step_.ops[At(writer)].frame;
        if (same_frame && !order_.IsAfter(reader, writer)) Before(reader, writer);
      }
    }
  }

  // ---- evaluations and changes

  void OrderEvaluations() {
    Items early;  // evaluation plans that come before every change
    const bool any_late =
        std::any_of(evaluations_.begin(), evaluations_.end(), [this](const RowReader& each) { return IsLate(each); });
    if (any_late) {
      if (!PlanAfterwards()) return;
      Items late;
      for (const RowReader& evaluation : evaluations_) {
        if (IsLate(evaluation)) {
          late.push_back(evaluation.item);
        } else {
          AddTo(&early, evaluation.evaluations);
        }
      }
      ReadBeforeSomeChanges();
      ReadFirst(late, step_.handle_writes);
    } else {
      for (const RowReader& evaluation : evaluations_) {
        layout_.evaluations_first.push_back(order_.Of(evaluation.item));
        AddTo(&early, evaluation.evaluations);
        for (const Item change : step_.changes) order_.Add(evaluation.item, change);
      }
    }
    TakeTurn(early);
  }

  bool IsLate(const RowReader& evaluation) const { return order_.IsAfterAny(evaluation.item, step_.changes); }

  // Orders the plans of each evaluation lookup after all changes on which the lookup depends. PlanAfterwards sets
  // `conflict` and returns false if a plan cannot be ordered after a change.
  bool PlanAfterwards() {
    for (bool again = true; again;) {
      again = false;
      for (const Item change : step_.changes) {
        for (const RowReader& evaluation : evaluations_) {
          if (!order_.IsAfter(evaluation.item, change)) continue;
          for (const Item plan : evaluation.evaluations) {
            if (order_.IsAfter(plan, change)) continue;
            if (order_.IsAfter(change, plan)) {
              layout_.conflict = {evaluation.item, change};
              return false;
            }
            Before(change, plan);
            again = true;
          }
        }
      }
    }
    return true;
  }

  // Orders each evaluation lookup before all changes on which the lookup does not depend.
  void ReadBeforeSomeChanges() {
    for (const RowReader& evaluation : evaluations_) {
      for (const Item change : step_.changes) {
        if (!order_.IsAfter(evaluation.item, change)) Before(evaluation.item, change);
      }
    }
  }

  // Makes evaluations wait for the turn of the training batch (AscTurn), so that no other step trains between the
  // evaluations and the claim.
  void TakeTurn(const Items& evaluations) {
    const auto found =
        std::find_if(step_.changes.begin(), step_.changes.end(), [this](Item item) { return PlanOf(item) >= 0; });
    if (found == step_.changes.end()) return;
    const int turn = PlanOf(*found);
    Items plans;  // evaluation plans that the training batch does not depend on
    std::copy_if(evaluations.begin(), evaluations.end(), std::back_inserter(plans),
                 [&](Item plan) { return !order_.IsAfter(step_.plans[At(turn)].ticket_source, plan); });
    if (plans.empty()) return;
    layout_.turn = turn;
    layout_.after_turn = plans;
    for (const Plan& plan : step_.plans) {
      if (std::find(plans.begin(), plans.end(), plan.item) == plans.end()) continue;
      Items batches;  // computed before the turn, so that the lease is not held during their computation
      std::copy_if(plan.inputs.begin(), plan.inputs.end(), std::back_inserter(batches),
                   [&](Item input) { return !order_.IsAfterAny(input, plans); });
      AddTo(&layout_.before_turn, batches);
    }
  }

  int PlanOf(Item item) const {
    for (std::size_t i = 0; i < step_.plans.size(); ++i) {
      if (step_.plans[i].item == item) return static_cast<int>(i);
    }
    return -1;
  }

  Step& step_;
  Order& order_;
  Layout& layout_;
  std::vector<RowReader> readers_, evaluations_;
};

}  // namespace

void DecideOrder(Step* step, Layout* layout) { OrderRules(step, layout).Apply(); }

}  // namespace step
}  // namespace ascpipe
