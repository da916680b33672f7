// Compares properties that must be equal on all ranks. The properties are lines "ITEM<tab>VALUE".
#ifndef ASCPIPE_PEERS_LIKENESS_H_
#define ASCPIPE_PEERS_LIKENESS_H_

#include <string>
#include <vector>

namespace ascpipe {

// Prefixes of items that have special rules.
constexpr char kCollectiveItem[] = "collective ";  // Horovod op: ranks hang if names differ
constexpr char kVariableItem[] = "variable ";      // dense model: a rank may have additional variables

// Returns the first difference between the texts of all ranks, such as "ITEM is A on rank 0 and B on rank 1". Returns
// "" if the texts are equal.
std::string DifferenceOf(const std::vector<std::string>& texts);

// Returns the first difference between the properties of one step on all ranks. `collectives` contains, by rank, the
// lines of all Horovod ops in the rank's graph. A collective in the step of one rank must occur in the graphs of all
// ranks. If a collective occurs in a rank's graph but not in its step, the rank may run the collective in another step.
// *apart describes a collective that a rank may run in another step.
std::string DifferenceOfSteps(const std::vector<std::string>& texts, const std::vector<std::string>& collectives,
                              std::string* apart);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_LIKENESS_H_
