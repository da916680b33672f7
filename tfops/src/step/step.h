// Model of a step: the ops in its graph that use tables, and the layout of the changed graph. The model does not depend
// on TensorFlow.
//
// step_reader.h reads a Step from a graph, step_rules.h decides its Layout, and step_writer.h changes the graph.
#ifndef ASCPIPE_STEP_STEP_H_
#define ASCPIPE_STEP_STEP_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "step/order.h"

namespace ascpipe {
namespace step {

using Value = int;  // index of an output of an op; -1: none

// An op with the properties that the rules need.
struct Op {
  std::string name;
  int device = 0;  // equal numbers: same device
  int frame = 0;   // the loop that contains the op; 0: none
  int branch = 0;  // either all or no ops of a branch run; 0: runs in every step; -1: in a loop
  Items waits;     // control inputs; only of plans and updates
};

// Kinds of readers of an output. The search for readers follows ops that only pass the value on, reshape it, or read
// its shape.
enum class By {
  kJoin,         // the output is a piece of `joins[number]`
  kBag,          // `bags[number]` combines the output
  kRowsOfSum,    // `sums[number]` reads the rows for a max_norm
  kSumGradient,  // the output is needed only for the shape of a gradient of `sums[number]`
  kCutBegin,     // position of `cuts[number]`, computed from the shapes of adjacent tensors
  kCutSize,      // size of the Slice `cuts[number]`
  kOther,        // anything else, described by `readers[number]`
};
struct Use {
  By by = By::kOther;
  int number = 0;

  bool operator==(const Use& other) const { return by == other.by && number == other.number; }
};
using Uses = std::vector<Use>;

// A read of rows of one table. AscLookup reads the variable, and AscRestoreRows reads a copy of the batch's rows.
struct Lookup {
  Item item = 0;
  Value rows = -1, slots = -1, default_row = -1;
  int table = -1;  // number of the table if `slots` may contain codes of home rows (in evaluation); otherwise -1
  bool is_copy = false;
  Items updates;      // updates of the variable
  Items evaluations;  // evaluation plans that produce the slots
};

// One output of a lookup.
struct Feature {
  int lookup = 0;
  int output = 0;
  Value restore = -1;
  Uses uses;
};

// Parameters for combining the rows of a bag.
struct Combination {
  Value splits = -1;  // -1: rows are not combined
  Value weights = -1;
  std::string combiner;
  float max_norm = 0;
};

// An op that reads the bags of a feature: AscCombine or AscCombineWeightsGrad.
struct Bag {
  Item item = 0;
  int feature = 0;
  Combination how;
  bool is_gradient = false;  // gradient of the weights
  Uses uses;
};

// An input of a concat of columns: a feature, a bag, or another tensor. For another tensor, `feature` and `bag` are -1.
struct Piece {
  Value value = -1;
  int feature = -1;
  int bag = -1;
  int columns = -1;  // -1: unknown
};
struct Join {
  Item item = 0;
  std::vector<Piece> pieces;
};

// Gradient of one feature of a sum. `how` is set if the gradients are gradients of bags.
struct SumFeature {
  Value restore = -1, gradient = -1;
  Combination how;
  Value whole = -1;  // tensor that contains the gradient as columns from `begin` on; -1: unknown
  int begin = 0;
  int columns = 0;
};
struct Sum {
  Item item = 0;
  Value slots = -1;
  Value rows = -1;    // only with a max_norm
  Items updates;      // updates of these rows
  Items evaluations;  // evaluation plans that produce the slots
  std::vector<SumFeature> features;

  bool has_bags() const;
};

// A Slice or SplitV op that cuts columns out of a tensor of gradients.
struct Cut {
  Value whole = -1;
  bool has_known_place = false;  // true if the columns are known without the shapes of adjacent tensors
  Uses uses;
};

// An AscNextPlan op.
struct Plan {
  Item item = 0;
  Value ticket = -1;
  Item ticket_source = 0;  // the op that produces `ticket`
  Items inputs;            // all ops that produce inputs
  int stream = 0;
  bool trains = false;
  bool may_merge = false;  // false for expansion tables, and if an input is not a variable
};

// An op that updates rows of variables with one formula.
struct Update {
  Item item = 0;
  int states = 0;       // number of leading inputs that are variables
  std::string formula;  // includes the parameters; equal formulas may merge; "": never merged
};

// An AscReadRows op, and the ops that write rows by handle. The read and the writes get their handles from the same
// AscLocalRows op.
struct HandleRead {
  Item item = 0;
  Items writes;
};

struct Step {
  std::vector<Op> ops;  // by item
  Order order;
  std::vector<std::string> readers;  // descriptions of kOther readers, as clauses
  std::vector<Lookup> lookups;       // this list and the lists below are sorted by name
  std::vector<Feature> features;
  std::vector<Bag> bags;
  std::vector<Join> joins;
  std::vector<Sum> sums;
  std::vector<Cut> cuts;
  std::vector<Plan> plans;
  std::vector<Update> updates;
  std::vector<HandleRead> handle_reads;
  Items handle_writes;
  Items changes;  // ops that move rows, or let another step move rows
};

// ---- the layout

// An output of AscRead, which replaces the output of a join, a bag or a feature. Exactly one of `join`, `bag` and
// `feature` is not -1. Pieces with a feature or a bag are read from tables.
struct Output {
  int join = -1, bag = -1, feature = -1;
  std::vector<Piece> pieces;
};
struct Read {
  Item item = 0;
  std::vector<Output> outputs;
};

// An AscSum op. In the layout, merged items are replaced by the item into which they were merged (Order::Of).
struct SumGroup {
  Item item = 0;
  std::vector<int> sums;
};

// Ops that are merged into one AscPlans or AscUpdate.
struct Group {
  Item item = 0;
  std::vector<int> members;  // indices into plans or updates of Step
};

// An item that stays unchanged, and the reason.
struct Apart {
  Item item = 0;
  std::string why;
};

struct Layout {
  std::vector<Read> reads;
  std::vector<int> weight_gradients;  // bags whose weight gradient reads rows of a table
  std::vector<SumGroup> sums;
  std::vector<bool> in_place;  // by sum: true if gradients are read as columns of `whole`
  std::vector<Group> plans;
  std::vector<Group> updates;
  std::vector<std::pair<Item, Item>> order;  // control edges, from and to
  Items evaluations_first;                   // evaluations that come before every change
  int turn = -1;                             // training plan; evaluations wait for its turn; -1: none
  Items before_turn, after_turn;             // predecessors of AscTurn, and evaluation plans after AscTurn
  // An evaluation and a change. The evaluation waits for the change, and the change waits for the evaluation's plan.
  std::pair<Item, Item> conflict = {-1, -1};
  std::vector<Apart> apart;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_STEP_H_
