// What the nodes that combine bags of tables, and those that sum their gradients, read: for passes that make one of several.
#ifndef ASCPIPE_BRIDGE_BAG_NODES_H_
#define ASCPIPE_BRIDGE_BAG_NODES_H_

#include <string>
#include <vector>

#include "bridge/step_graph.h"

namespace ascpipe {

// AscRead.
struct CombineNode {
  struct Feature {
    Port rows, slots, restore, default_row;
    Port splits;   // no node: the rows are not combined
    Port weights;  // no node: none
    std::string combiner;
    float max_norm;
    int table;
  };

  std::vector<Feature> features;
  std::vector<Port> others;
  // What stands side by side in each output: i below the number of features for one, else others.
  std::vector<std::vector<int>> outputs;
};

// AscRead with bags.
bool IsCombineOfTable(const tensorflow::Node& node);

// Adds what a node combines, with its outputs after those that are there.
tensorflow::Status AddCombine(const tensorflow::Node& node, CombineNode* combine);

// Places AscRead.
tensorflow::Status PlaceCombine(tensorflow::Graph* graph, const char* name, const CombineNode& combine,
                                const Nodes& after, const tensorflow::Node& beside, tensorflow::Node** node);

// AscLookupGrad or AscSum.
struct SumNode {
  struct Table {
    Port rows;  // no node: none
    Port slots;
    int dim;
    bool partial;
  };
  struct Feature {
    int table;
    Port restore, grads;
    int column;            // of `grads`, where the gradient begins; -1: the gradient is the whole tensor
    Port splits, weights;  // no node: none
    std::string combiner;
    float max_norm;
  };

  std::vector<Table> tables;
  std::vector<Feature> features;
};

// AscSum with bags.
bool IsSumOfBags(const tensorflow::Node& node);

// Adds what a node sums, with its tables after those that are there.
tensorflow::Status AddSum(const tensorflow::Node& node, SumNode* sum);

// Places AscSum.
tensorflow::Status PlaceSum(tensorflow::Graph* graph, const SumNode& sum, const Nodes& after,
                            const tensorflow::Node& beside, tensorflow::Node** node);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BAG_NODES_H_
