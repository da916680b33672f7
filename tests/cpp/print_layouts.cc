// Reads steps as numbers and words, which test_step_rules.py writes, and prints one line with the layout of each step.
#include <iostream>
#include <string>
#include <vector>

#include "step/step_rules.h"

namespace {

using namespace ascpipe::step;

int Number() {
  int number = 0;
  std::cin >> number;
  return number;
}

std::string Word() {
  std::string word;
  std::cin >> word;
  return word == "-" ? "" : word;
}

Items ReadItems() {
  Items items(At(Number()));
  for (Item &item : items) item = Number();
  return items;
}

Uses ReadUses() {
  Uses uses(At(Number()));
  for (Use &use : uses) {
    use.by = static_cast<By>(Number());
    use.number = Number();
  }
  return uses;
}

// Each function below reads the fields in the order of the struct in tests/reference/step.py.
void Take(Op *op) {
  op->name = Word();
  op->device = Number();
  op->frame = Number();
  op->branch = Number();
  op->waits = ReadItems();
}

void Take(Lookup *lookup) {
  lookup->item = Number();
  lookup->rows = Number();
  lookup->slots = Number();
  lookup->default_row = Number();
  lookup->table = Number();
  lookup->is_copy = Number() != 0;
  lookup->updates = ReadItems();
  lookup->evaluations = ReadItems();
}

void Take(Feature *feature) {
  feature->lookup = Number();
  feature->output = Number();
  feature->restore = Number();
  feature->uses = ReadUses();
}

void Take(Bag *bag) {
  bag->item = Number();
  bag->feature = Number();
  bag->is_gradient = Number() != 0;
  bag->uses = ReadUses();
}

void Take(Join *join) {
  join->item = Number();
  join->pieces.resize(At(Number()));
  for (Piece &piece : join->pieces) {
    piece.value = Number();
    piece.feature = Number();
    piece.bag = Number();
    piece.columns = Number();
  }
}

void Take(Sum *sum) {
  sum->item = Number();
  sum->slots = Number();
  sum->updates = ReadItems();
  sum->evaluations = ReadItems();
  sum->features.resize(At(Number()));
  for (SumFeature &feature : sum->features) {
    feature.restore = Number();
    feature.how.splits = Number() - 1;
    feature.whole = Number();
    feature.columns = Number();
  }
}

void Take(Cut *cut) {
  cut->whole = Number();
  cut->has_known_place = Number() != 0;
  cut->uses = ReadUses();
}

void Take(Plan *plan) {
  plan->item = Number();
  plan->ticket = Number();
  plan->ticket_source = Number();
  plan->inputs = ReadItems();
  plan->stream = Number();
  plan->trains = Number() != 0;
  plan->may_merge = Number() != 0;
}

void Take(Update *update) {
  update->item = Number();
  update->formula = Word();
}

void Take(HandleRead *read) {
  read->item = Number();
  read->writes = ReadItems();
}

template <typename Each>
void Take(std::vector<Each> *all) {
  all->resize(At(Number()));
  for (Each &each : *all) Take(&each);
}

void Print(const std::vector<int> &numbers) {
  std::cout << '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) std::cout << (i == 0 ? "" : ", ") << numbers[i];
  std::cout << ']';
}

template <typename Each, typename PrintOne>
void PrintAll(const std::vector<Each> &all, const PrintOne &print) {
  std::cout << '[';
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) std::cout << ", ";
    print(all[i]);
  }
  std::cout << ']';
}

void PrintGroups(const std::vector<Group> &groups) {
  PrintAll(groups, [](const Group &group) {
    std::cout << '[' << group.item << ", ";
    Print(group.members);
    std::cout << ']';
  });
}

void PrintOutput(const Output &output) {
  const bool joins = output.join >= 0, combines = output.bag >= 0;
  std::cout << "[\""
            << (joins      ? "join"
                : combines ? "bag"
                           : "feature")
            << "\", "
            << (joins      ? output.join
                : combines ? output.bag
                           : output.feature)
            << ", ";
  PrintAll(output.pieces, [](const Piece &piece) {
    std::cout << '[' << (piece.bag >= 0 ? -1 : piece.feature) << ", " << piece.bag << ']';
  });
  std::cout << ']';
}

// Prints the layout as JSON, with the fields of Layout in tests/reference/step.py.
void Print(const Layout &layout) {
  std::cout << '[';
  PrintAll(layout.reads, [](const ascpipe::step::Read &read) {
    std::cout << '[' << read.item << ", ";
    PrintAll(read.outputs, PrintOutput);
    std::cout << ']';
  });
  std::cout << ", ";
  Print(layout.weight_gradients);
  std::cout << ", ";
  PrintAll(layout.sums, [](const SumGroup &group) {
    std::cout << '[' << group.item << ", ";
    Print(group.sums);
    std::cout << ']';
  });
  std::vector<int> in_place;
  for (std::size_t i = 0; i < layout.in_place.size(); ++i) {
    if (layout.in_place[i]) in_place.push_back(static_cast<int>(i));
  }
  std::cout << ", ";
  Print(in_place);
  std::cout << ", ";
  PrintGroups(layout.plans);
  std::cout << ", ";
  PrintGroups(layout.updates);
  std::cout << ", ";
  PrintAll(layout.order,
           [](const std::pair<Item, Item> &edge) { std::cout << '[' << edge.first << ", " << edge.second << ']'; });
  std::cout << ", ";
  Print(layout.evaluations_first);
  std::cout << ", [" << layout.turn << ", ";
  Print(layout.before_turn);
  std::cout << ", ";
  Print(layout.after_turn);
  std::cout << "], [" << layout.conflict.first << ", " << layout.conflict.second << "]]\n";
}

}  // namespace

int main() {
  int steps = Number();
  while (steps-- > 0) {
    Step step;
    Take(&step.ops);
    step.order = Order(static_cast<int>(step.ops.size()));
    for (int edges = Number(); edges > 0; --edges) {
      const Item first = Number();
      step.order.Know(first, Number());
    }
    step.readers = {"another"};
    Take(&step.lookups);
    Take(&step.features);
    Take(&step.bags);
    Take(&step.joins);
    Take(&step.sums);
    Take(&step.cuts);
    Take(&step.plans);
    Take(&step.updates);
    Take(&step.handle_reads);
    step.handle_writes = ReadItems();
    step.changes = ReadItems();
    Print(Decide(step));
  }
  return 0;
}
