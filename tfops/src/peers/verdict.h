// Verdict of all ranks about one exchange. The verdict depends only on the headers, so all ranks compute the same
// verdict. tests/model/verdicts.py is the reference implementation.
#ifndef ASCPIPE_PEERS_VERDICT_H_
#define ASCPIPE_PEERS_VERDICT_H_

#include <string>
#include <vector>

#include "peers/header.h"

namespace ascpipe {

enum class VerdictKind {
  kBegin,   // all ranks have the batch
  kOver,    // the data of a rank ends before the batch, so all ranks end their data
  kGo,      // all ranks have sent rows of one batch; tables change after this verdict
  kRows,    // like kGo, for an evaluation
  kApply,   // all ranks have sent gradients of one batch
  kTurn,    // the ranks sent batches of different streams: rank 0's stream is next, and all ranks send again
  kAsked,   // all ranks execute the request of rank 0, then send their requests again
  kAgain,   // a rank has nothing to exchange yet, so all other ranks send their messages again
  kLeft,    // all ranks shut down
  kFail,    // the step fails on each rank; tables are unchanged
  kPoison,  // the step fails on each rank; no rank may use its tables, because some may contain updates of the step
};

struct PeerVerdict {
  VerdictKind kind = VerdictKind::kFail;
  int stream = 0;        // kTurn: the stream that is next
  std::string cause;     // kFail, kPoison: what each rank did; kAgain: why ranks fail, "" if none does
  bool is_busy = false;  // kAgain: true if rank 0 has sent kBusy or kAsk, so rank 0 has started nothing else

  bool failed() const { return kind == VerdictKind::kFail || kind == VerdictKind::kPoison; }
};

// Computes the verdict. `headers` contains the headers of all ranks in rank order.
PeerVerdict Decide(const std::vector<PeerHeader>& headers);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_VERDICT_H_
