// Compares what must be alike on all ranks: lines "ITEM<tab>VALUE".
#ifndef ASCPIPE_PEERS_LIKENESS_H_
#define ASCPIPE_PEERS_LIKENESS_H_

#include <string>
#include <vector>

namespace ascpipe {

// Prefixes of items of a step with rules of their own.
constexpr char kCollectiveItem[] = "collective ";  // Horovod op: ranks hang if names differ
constexpr char kVariableItem[] = "variable ";      // dense model: a rank may have additional variables

// Returns the first difference of the texts, by rank: "ITEM is A on rank 0 and B on rank 1"; "" if they are equal.
std::string DifferenceOf(const std::vector<std::string>& texts);

// Return the first difference of one step. `collectives`: by rank, the lines of all Horovod ops in the rank's graph. A
// collective in the step of one rank must occur in the graphs of all ranks. If it occurs in a rank's graph but not in
// its step, the rank may run it in another step; *apart then describes it.
std::string DifferenceOfSteps(const std::vector<std::string>& texts, const std::vector<std::string>& collectives,
                              std::string* apart);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_LIKENESS_H_
