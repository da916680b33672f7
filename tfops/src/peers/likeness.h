// Compares what must be alike on all ranks: lines "ITEM<tab>VALUE".
#ifndef ASCPIPE_PEERS_LIKENESS_H_
#define ASCPIPE_PEERS_LIKENESS_H_

#include <string>
#include <vector>

namespace ascpipe {

// Prefixes of items of a step with rules of their own.
constexpr char kCollectiveItem[] = "collective ";  // an op of Horovod: with different names, both ranks hang
constexpr char kVariableItem[] = "variable ";      // of the dense model: a rank may have additional variables

// Returns the first difference of the texts, by rank: "ITEM is A on rank 0 and B on rank 1"; "" if they are equal.
std::string DifferenceOf(const std::vector<std::string>& texts);

// The same for one step.  `collectives`: by rank, the lines of all ops of Horovod in its graph.  It is a difference if
// the step of a rank runs a collective that the graph of another rank does not contain.  If the graph contains it and
// only the step does not, the other rank may run it in another step: then *apart describes it.
std::string DifferenceOfSteps(const std::vector<std::string>& texts, const std::vector<std::string>& collectives,
                              std::string* apart);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_LIKENESS_H_
