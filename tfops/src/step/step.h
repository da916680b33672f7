// What the graph of one step does with tables, and how it is to be done: without TensorFlow.
//
// step_reader.h makes a Step of a graph, step_rules.h decides its Layout, step_writer.h changes the graph.
#ifndef ASCPIPE_STEP_STEP_H_
#define ASCPIPE_STEP_STEP_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "step/order.h"

namespace ascpipe {
namespace step {

using Value = int;  // an output of an op: a number from 0 on; -1: none

// An op, as far as the rules need it.
struct Op {
  std::string name;
  int device = 0;  // the same number: the same device
  int frame = 0;   // of which loop it is part; 0: of none
  int branch = 0;  // ops of one branch run all or none; 0: whenever the step runs, -1: in a loop
  Items waits;     // what it waits for besides its inputs; of plans and updates
};

// What reads an output, also through ops that only pass it on, reshape it or ask for its shape.
enum class By {
  kJoin,         // a piece of `joins[number]`
  kBag,          // `bags[number]` combines it
  kRowsOfSum,    // `sums[number]`, for a max_norm
  kSumGradient,  // the shape of a gradient of `sums[number]`
  kCutBegin,     // where `cuts[number]` begins: the shape of a tensor beside it
  kCutSize,      // its size
  kOther,        // something else, of which `readers[number]` tells
};
struct Use {
  By by = By::kOther;
  int number = 0;

  bool operator==(const Use& other) const { return by == other.by && number == other.number; }
};
using Uses = std::vector<Use>;

// Rows of one table: AscLookup in its variable, AscRestoreRows in a copy of the batch's rows.
struct Lookup {
  Item item = 0;
  Value rows = -1, slots = -1, default_row = -1;
  int table = -1;  // its number, if slots may name home rows, as in evaluation; else -1
  bool is_copy = false;
  Items updates;      // of its variable
  Items evaluations;  // the evaluation plans that its slots come from
};

// One output of a lookup.
struct Feature {
  int lookup = 0;
  int output = 0;
  Value restore = -1;
  Uses uses;
};

// How rows of positions become one for each bag.
struct Combination {
  Value splits = -1;  // -1: they do not
  Value weights = -1;
  std::string combiner;
  float max_norm = 0;
};

// AscCombine of a feature, or AscCombineWeightsGrad.
struct Bag {
  Item item = 0;
  int feature = 0;
  Combination how;
  bool is_gradient = false;  // of the weights
  Uses uses;
};

// A tensor that a concat of columns joins with others: a feature's, a bag's, or (both -1) another one.
struct Piece {
  Value value = -1;
  int feature = -1;
  int bag = -1;
  int columns = -1;  // -1: not known
};
struct Join {
  Item item = 0;
  std::vector<Piece> pieces;
};

// AscLookupGrad: the gradients of a table's features, summed for each row.  `how`: gradients are of bags.
struct SumFeature {
  Value restore = -1, gradient = -1;
  Combination how;
  Value whole = -1;  // the tensor that has the gradient as columns, of which `begin` is the first; -1: none is known
  int begin = 0;
  int columns = 0;
};
struct Sum {
  Item item = 0;
  Value slots = -1;
  Value rows = -1;    // with a max_norm
  Items updates;      // of these rows
  Items evaluations;  // as of Lookup
  std::vector<SumFeature> features;

  bool has_bags() const;
};

// A Slice or SplitV of columns of a tensor of gradients.
struct Cut {
  Value whole = -1;
  bool has_known_place = false;  // so that it can be cut without the shapes of the tensors beside it
  Uses uses;
};

// AscNextPlan.
struct Plan {
  Item item = 0;
  Value ticket = -1;
  Item ticket_source = 0;  // the op that `ticket` is an output of
  Items inputs;            // all ops that it has inputs of
  int stream = 0;
  bool trains = false;
  bool may_merge = false;  // not of an expansion table, and its variables are variables
};

// An op that updates rows of a variable by one formula.
struct Update {
  Item item = 0;
  int states = 0;       // its first inputs, which are variables
  std::string formula;  // with its parameters: equal where both are; "": it stays as it is
};

// AscReadRows, and what writes rows by handles of the same copy.
struct HandleRead {
  Item item = 0;
  Items writes;
};

struct Step {
  std::vector<Op> ops;  // by item
  Order order;
  std::vector<std::string> readers;  // what else reads an output, as a clause
  std::vector<Lookup> lookups;       // these and the rest: by name
  std::vector<Feature> features;
  std::vector<Bag> bags;
  std::vector<Join> joins;
  std::vector<Sum> sums;
  std::vector<Cut> cuts;
  std::vector<Plan> plans;
  std::vector<Update> updates;
  std::vector<HandleRead> handle_reads;
  Items handle_writes;
  Items changes;  // ops that move rows, or let another step do so
};

// ---- the layout

// A tensor that an AscRead writes, in place of that of a join, a bag or a feature: others are -1.  Pieces with a
// feature or a bag are read from tables.
struct Output {
  int join = -1, bag = -1, feature = -1;
  std::vector<Piece> pieces;
};
struct Read {
  Item item = 0;
  std::vector<Output> outputs;
};

// An AscSum: items of the layout are those that the order merged others with.
struct SumGroup {
  Item item = 0;
  std::vector<int> sums;
};

// Ops that become one: AscPlans or AscUpdate.
struct Group {
  Item item = 0;
  std::vector<int> members;  // of Step's plans or updates
};

// Something that stays as it is, and why.
struct Apart {
  Item item = 0;
  std::string why;
};

struct Layout {
  std::vector<Read> reads;
  std::vector<int> weight_gradients;  // bags that read a table
  std::vector<SumGroup> sums;
  std::vector<bool> in_place;  // by sum: its gradients are read as columns of the whole
  std::vector<Group> plans;
  std::vector<Group> updates;
  std::vector<std::pair<Item, Item>> order;  // control edges, from and to
  Items evaluations_first;                   // all these before every change
  int turn = -1;                  // the training plan whose turn the step takes before it evaluates; -1: none
  Items before_turn, after_turn;  // what the turn waits for, and the evaluation plans that wait for it
  std::pair<Item, Item> conflict = {-1, -1};  // an evaluation that waits for a change, which waits for its plan
  std::vector<Apart> apart;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_STEP_H_
