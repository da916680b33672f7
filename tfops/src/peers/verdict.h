// What all ranks conclude from one exchange: a pure function of the headers, so that each rank concludes the same.
// tests/model/verdicts.py is its twin.
#ifndef ASCPIPE_PEERS_VERDICT_H_
#define ASCPIPE_PEERS_VERDICT_H_

#include <string>
#include <vector>

#include "peers/header.h"

namespace ascpipe {

enum class VerdictKind {
  kBegin,   // all ranks have the batch
  kOver,    // some rank has no such batch: the data ends for all
  kGo,      // rows of one batch on all ranks; from here on tables change
  kRows,    // as kGo, for an evaluation
  kApply,   // gradients of one batch on all ranks
  kTurn,    // batches of several streams: that of rank 0 comes first, and all send anew
  kAsked,   // every rank does what rank 0 asks for; then all others send anew
  kAgain,   // a rank has nothing to say yet: all others send anew
  kLeft,    // all close
  kFail,    // the step of each rank fails; its tables are as before it
  kPoison,  // the step of each rank fails, and some tables may have its updates: no rank may go on with them
};

struct PeerVerdict {
  VerdictKind kind = VerdictKind::kFail;
  int stream = 0;        // kTurn: which comes first
  std::string cause;     // kFail, kPoison: what each rank did; kAgain: why ranks fail, "" if none does
  bool is_busy = false;  // kAgain: rank 0 is kBusy or asks, so it has not gone on to another thing

  bool failed() const { return kind == VerdictKind::kFail || kind == VerdictKind::kPoison; }
};

// `headers`: of all ranks, in rank order.
PeerVerdict Decide(const std::vector<PeerHeader>& headers);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_VERDICT_H_
