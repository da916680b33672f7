// What ranks must have alike, as lines "ITEM<tab>VALUE", and the first item that differs.
#ifndef ASCPIPE_PEERS_LIKENESS_H_
#define ASCPIPE_PEERS_LIKENESS_H_

#include <string>
#include <vector>

namespace ascpipe {

// Beginnings of items of a step that are compared in a way of their own.
constexpr char kCollectiveItem[] = "collective ";  // an op of Horovod's: the same name, or both ranks wait for ever
constexpr char kVariableItem[] = "variable ";      // of the dense model: ranks may have others beside each other's

// What differs in the texts of all ranks, by rank: "ITEM is A on rank 0 and B on rank 1"; "" if nothing does.
std::string DifferenceOf(const std::vector<std::string>& texts);

// The same of one step.  `collectives`: by rank, the lines of all ops of Horovod's that its graph has.  One that the
// step of a rank runs and the graph of another one does not have is a difference; one that is only not in the other's
// step is not, as the other rank may run it by itself: *apart says so.
std::string DifferenceOfSteps(const std::vector<std::string>& texts, const std::vector<std::string>& collectives,
                              std::string* apart);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_LIKENESS_H_
