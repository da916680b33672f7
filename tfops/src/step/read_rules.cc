// Rules for AscRead ops, which replace the ops that combine or join rows, and rules for sums that read gradients in
// place.
#include <algorithm>
#include <map>
#include <utility>

#include "step/layers.h"
#include "step/step_rules.h"

namespace ascpipe {
namespace step {

namespace {

class ReadRules {
 public:
  ReadRules(Step* step, Layout* layout)
      : step_(*step), layout_(*layout), is_combined_(step->bags.size()), is_read_(step->features.size()) {
    layout_.in_place.resize(step_.sums.size());
  }

  void Apply() {
    CombineBags();
    for (std::size_t join = 0; join < step_.joins.size(); ++join) {
      if (!HasColumns(step_.joins[join])) continue;
      SumInPlace(step_.joins[join]);
      JoinReads(static_cast<int>(join));
    }
    ReadRest();
    for (std::size_t bag = 0; bag < step_.bags.size(); ++bag) ReadBag(static_cast<int>(bag));
    for (std::size_t sum = 0; sum < step_.sums.size(); ++sum) SumBags(static_cast<int>(sum));
    ReadTogether();
    SumTogether();
  }

 private:
  const Op& op(Item item) const { return step_.ops[At(item)]; }
  const Lookup& LookupOf(int feature) const { return step_.lookups[At(step_.features[At(feature)].lookup)]; }

  void StaysApart(Item item, const std::string& why) { layout_.apart.push_back({item, why}); }

  std::string ReadBy(const Use& use) const {
    return use.by == By::kOther ? step_.readers[At(use.number)] : "its shape or its rows are read as well";
  }

  // Returns true if moving the lookups to the position of `readers` does not change the rows that the lookups read.
  // DecideOrder places each evaluation lookup before or after the table changes of the step, independently of other
  // lookups. Therefore evaluation lookups may move only if the step has no table changes. A lookup that is not an
  // evaluation lookup may move only if no reader comes after an update of the rows.
  bool MayReadAt(const std::vector<const Lookup*>& lookups, const Items& readers) const {
    const auto evaluates = [](const Lookup* lookup) { return lookup->table >= 0; };
    if (std::any_of(lookups.begin(), lookups.end(), evaluates)) {
      return std::all_of(lookups.begin(), lookups.end(), evaluates) && step_.changes.empty();
    }
    return std::all_of(lookups.begin(), lookups.end(), [&](const Lookup* lookup) {
      return std::none_of(readers.begin(), readers.end(),
                          [&](Item reader) { return step_.order.IsAfterAny(reader, lookup->updates); });
    });
  }

  // ---- bags

  // Merges the bags of a feature into the op that reads the table, if only bags (struct Bag) and sums read the
  // feature's rows.
  void CombineBags() {
    std::vector<std::vector<int>> bags(step_.features.size());
    for (std::size_t bag = 0; bag < step_.bags.size(); ++bag) {
      bags[At(step_.bags[bag].feature)].push_back(static_cast<int>(bag));
    }
    for (std::size_t feature = 0; feature < step_.features.size(); ++feature) {
      if (!bags[feature].empty()) CombineFeature(static_cast<int>(feature), bags[feature]);
    }
  }

  void CombineFeature(int feature, const std::vector<int>& bags) {
    const Lookup& lookup = LookupOf(feature);
    for (const Use& use : step_.features[At(feature)].uses) {
      if (use.by != By::kBag && use.by != By::kRowsOfSum) return StaysApart(lookup.item, ReadBy(use));
    }
    for (const int bag : bags) {
      const Lookup* const reads[] = {&lookup};
      if (lookup.is_copy || MayReadAt({reads, reads + 1}, {step_.bags[At(bag)].item})) continue;
      return StaysApart(lookup.item,
                        "a change of its rows may come before '" + op(step_.bags[At(bag)].item).name + "'");
    }
    for (const int bag : bags) is_combined_[At(bag)] = true;
    is_read_[At(feature)] = true;
  }

  // ---- joins

  // Returns true if the number of columns of each piece is known, and the join may read at least one piece from a
  // table.
  bool HasColumns(const Join& join) const {
    return std::all_of(join.pieces.begin(), join.pieces.end(), [](const Piece& each) { return each.columns >= 0; }) &&
           std::any_of(join.pieces.begin(), join.pieces.end(), [this](const Piece& each) { return IsRead(each); });
  }

  // Returns true if a join may read the piece from a table. The piece must be a feature that no bag or join reads, or a
  // combined bag.
  bool IsRead(const Piece& piece) const {
    return (piece.feature >= 0 && !is_read_[At(piece.feature)]) || (piece.bag >= 0 && is_combined_[At(piece.bag)]);
  }

  int FeatureOf(const Piece& piece) const { return piece.bag >= 0 ? step_.bags[At(piece.bag)].feature : piece.feature; }

  // Lets a sum read its gradients in place if all gradients of the sum are columns of the gradient of `join`.
  void SumInPlace(const Join& join) {
    std::map<std::pair<Value, bool>, std::vector<int>>
        groups;  // by tensor, and by whether the gradients are gradients of bags
    for (std::size_t number = 0; number < step_.sums.size(); ++number) {
      const Sum& sum = step_.sums[number];
      const bool fits = !layout_.in_place[number] &&
                        std::all_of(sum.features.begin(), sum.features.end(), [&](const SumFeature& each) {
                          return each.whole >= 0 && each.whole == sum.features[0].whole && HasPiece(join, sum, each);
                        });
      if (fits) groups[{sum.features[0].whole, sum.has_bags()}].push_back(static_cast<int>(number));
    }
    for (const auto& group : groups) {
      const Items items = ItemsOf(step_.sums, group.second);
      if (!AreAlike(items)) {
        StaysApart(items[0], "sums of the same gradient are on several devices");
      } else if (!step_.order.AreApart(items)) {
        StaysApart(items[0], "a sum of the same gradient waits for it");
      } else {
        step_.order.Merge(items);
        layout_.sums.push_back({items[0], group.second});
        for (const int sum : group.second) layout_.in_place[At(sum)] = true;
      }
    }
  }

  bool HasPiece(const Join& join, const Sum& sum, const SumFeature& of) const {
    for (const Piece& piece : join.pieces) {
      if (!IsRead(piece) || (piece.bag >= 0) != sum.has_bags()) continue;
      const int feature = FeatureOf(piece);
      if (LookupOf(feature).slots == sum.slots && step_.features[At(feature)].restore == of.restore) {
        return piece.columns == of.columns;
      }
    }
    return false;
  }

  bool AreAlike(const Items& items) const {
    return std::all_of(items.begin(), items.end(), [&](Item item) { return op(item).device == op(items[0]).device; });
  }

  // Returns true if a use disappears when an AscRead op replaces the join.
  bool Ends(const Use& use, int join) const {
    switch (use.by) {
      case By::kJoin:
        return use.number == join;
      case By::kRowsOfSum:
        return true;
      case By::kSumGradient:
        return layout_.in_place[At(use.number)];
      case By::kCutBegin:
        return IsReadInPlace(use.number) && (step_.cuts[At(use.number)].has_known_place || IsCutOut(use.number));
      case By::kCutSize:
        return IsCutOut(use.number);
      default:
        return false;
    }
  }

  // Returns true if at least one sum reads its gradients in place from the tensor that the Slice op cuts.
  bool IsReadInPlace(int cut) const {
    for (std::size_t sum = 0; sum < step_.sums.size(); ++sum) {
      if (layout_.in_place[sum] && step_.sums[sum].features[0].whole == step_.cuts[At(cut)].whole) return true;
    }
    return false;
  }

  // Returns true if the cut is no longer needed, because only sums use the cut and all these sums read in place.
  bool IsCutOut(int cut) const {
    const Uses& uses = step_.cuts[At(cut)].uses;
    return !uses.empty() && std::all_of(uses.begin(), uses.end(), [this](const Use& use) {
      return use.by == By::kSumGradient && layout_.in_place[At(use.number)];
    });
  }

  // Stays returns the first use that does not disappear. If all uses disappear, Stays returns null. If the piece is a
  // bag, StaysOf searches the uses of the bag. If the piece is a feature, StaysOf searches the uses of all features of
  // the same lookup, except features that a bag or join reads.
  const Use* Stays(const Uses& uses, int join) const {
    const auto found = std::find_if(uses.begin(), uses.end(), [=](const Use& use) { return !Ends(use, join); });
    return found == uses.end() ? nullptr : &*found;
  }

  const Use* StaysOf(const Piece& piece, int join) const {
    if (piece.bag >= 0) return Stays(step_.bags[At(piece.bag)].uses, join);
    for (std::size_t i = 0; i < step_.features.size(); ++i) {
      const Feature& feature = step_.features[i];
      if (feature.lookup != step_.features[At(piece.feature)].lookup || is_read_[i]) continue;
      if (const Use* const stays = Stays(feature.uses, join)) return stays;
    }
    return nullptr;
  }

  void JoinReads(int number) {
    const Join& join = step_.joins[At(number)];
    Output output;
    output.join = number;
    output.pieces = join.pieces;
    bool has_ids = false;
    for (Piece& piece : output.pieces) {
      if (!IsRead(piece)) {
        piece.feature = piece.bag = -1;
      } else if (const Use* const stays = StaysOf(piece, number)) {
        StaysApart(LookupOf(FeatureOf(piece)).item, ReadBy(*stays));
        piece.feature = piece.bag = -1;
      }
      has_ids = has_ids || piece.feature >= 0;
    }
    std::vector<const Lookup*> lookups;
    Items items;
    bool are_copies = false;
    for (Piece& piece : output.pieces) {
      if (has_ids) piece.bag = -1;  // a separate op writes the bags
      if (FeatureOf(piece) < 0) continue;
      lookups.push_back(&LookupOf(FeatureOf(piece)));
      items.push_back(piece.bag >= 0 ? step_.bags[At(piece.bag)].item : lookups.back()->item);
      are_copies = are_copies || lookups.back()->is_copy;
    }
    if (lookups.empty()) return;
    const bool are_of_one_kind =
        std::all_of(lookups.begin(), lookups.end(), [=](const Lookup* each) { return each->is_copy == are_copies; });
    if (!AreAlike(items) || (has_ids && !are_of_one_kind))
      return StaysApart(join.item, "its lookups are of several kinds");
    if (!MayReadAt(lookups, {join.item})) return StaysApart(join.item, "a change of its rows may come before it");
    for (const Piece& piece : output.pieces) {
      if (piece.feature >= 0) is_read_[At(piece.feature)] = true;
      if (piece.bag >= 0) is_combined_[At(piece.bag)] = false;
    }
    layout_.reads.push_back({join.item, {output}});
  }

  // ---- remaining features

  // If only some features of a lookup are combined, adds a read of the features that are not combined.
  void ReadRest() {
    std::vector<bool> has_bags(step_.lookups.size());
    for (const Bag& bag : step_.bags) {
      if (is_read_[At(bag.feature)]) has_bags[At(step_.features[At(bag.feature)].lookup)] = true;
    }
    std::map<int, Read> rest;  // by lookup
    for (std::size_t i = 0; i < step_.features.size(); ++i) {
      const Feature& feature = step_.features[i];
      if (!has_bags[At(feature.lookup)] || is_read_[i] || Stays(feature.uses, -1) == nullptr) continue;
      Output output;
      output.feature = static_cast<int>(i);
      output.pieces.resize(1);
      output.pieces[0].feature = output.feature;
      rest[feature.lookup].item = step_.lookups[At(feature.lookup)].item;
      rest[feature.lookup].outputs.push_back(output);
    }
    for (const auto& each : rest) layout_.reads.push_back(each.second);
  }

  void ReadBag(int number) {
    if (!is_combined_[At(number)]) return;
    const Bag& bag = step_.bags[At(number)];
    if (bag.is_gradient) {
      layout_.weight_gradients.push_back(number);
      return;
    }
    Output output;
    output.bag = number;
    output.pieces.resize(1);
    output.pieces[0].bag = number;
    layout_.reads.push_back({bag.item, {output}});
  }

  void SumBags(int number) {
    const Sum& sum = step_.sums[At(number)];
    if (sum.has_bags() && !layout_.in_place[At(number)]) layout_.sums.push_back({sum.item, {number}});
  }

  // ---- all tables

  // Merges the bags of all tables into one op, and the sums of their gradients into another op. Programs with feature
  // columns have about fifty tables with little work for each table.
  void ReadTogether() {
    std::vector<Read>& reads = layout_.reads;
    ForEachLayer(
        step_, &reads, [](const Read& read) { return HasBags(read); },
        [&](const std::vector<int>& layer) {
          std::vector<const Lookup*> lookups;
          for (const int number : layer) {
            for (const Output& output : reads[At(number)].outputs) {
              for (const Piece& piece : output.pieces) {
                if (FeatureOf(piece) >= 0) lookups.push_back(&LookupOf(FeatureOf(piece)));
              }
            }
          }
          const Items items = ItemsOf(reads, layer);
          if (!MayReadAt(lookups, items)) return StaysApart(items[0], "a change of some rows may come before it");
          step_.order.Merge(items);
          for (const int number : layer) TakeOver(&reads[At(layer[0])].outputs, &reads[At(number)].outputs);
        });
    const auto is_empty = [](const Read& read) { return read.outputs.empty(); };
    reads.erase(std::remove_if(reads.begin(), reads.end(), is_empty), reads.end());
  }

  static bool HasBags(const Read& read) {
    const std::vector<Piece>& pieces = read.outputs[0].pieces;
    return std::any_of(pieces.begin(), pieces.end(), [](const Piece& each) { return each.bag >= 0; });
  }

  void SumTogether() {
    std::vector<SumGroup>& sums = layout_.sums;
    const auto has_bags = [this](const SumGroup& each) { return step_.sums[At(each.sums[0])].has_bags(); };
    ForEachLayer(step_, &sums, has_bags, [&](const std::vector<int>& layer) {
      step_.order.Merge(ItemsOf(sums, layer));
      for (const int number : layer) TakeOver(&sums[At(layer[0])].sums, &sums[At(number)].sums);
    });
    const auto is_empty = [](const SumGroup& each) { return each.sums.empty(); };
    sums.erase(std::remove_if(sums.begin(), sums.end(), is_empty), sums.end());
  }

  Step& step_;
  Layout& layout_;
  std::vector<bool> is_combined_;  // by bag: combined in the read of the table, and not yet in a join
  std::vector<bool> is_read_;      // by feature: read by a bag or a join
};

}  // namespace

void DecideReads(Step* step, Layout* layout) { ReadRules(step, layout).Apply(); }

}  // namespace step
}  // namespace ascpipe
