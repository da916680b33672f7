// What `ascpipe status` and `ascpipe timeline` show of the exchanges of a rank, and for which rank the others wait.
#ifndef ASCPIPE_PEERS_FIGURES_H_
#define ASCPIPE_PEERS_FIGURES_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "peers/header.h"
#include "peers/span_ring.h"

namespace ascpipe {

// Of one thread.  An exchange ends at nearly the same time on all ranks.  So the rank that was busy for longest before
// the next one is the rank that the others have waited for, and no clocks are compared.
class PeerFigures {
 public:
  using Clock = std::chrono::steady_clock;

  // `shared`: where others read them; null: nowhere.  `spans`: where each exchange is recorded; null: nowhere.
  PeerFigures(layout::Exchanges* shared, SpanRing* spans, int rank, int ranks);

  // An exchange begins.  Returns how long this rank was busy since the one before, for the header; 0 if there was none.
  std::int64_t Begin(const PeerHeader& header, Clock::time_point now);
  void Sent(const std::vector<std::int64_t>& sizes);  // bytes, by rank
  // It is over.  The exchange of a heartbeat takes no time.
  void End(const std::vector<std::int64_t>& sizes, Clock::time_point now);
  // What all ranks said in it, so it is recorded.
  void Compare(const std::vector<PeerHeader>& headers);

 private:
  void Record(const std::vector<PeerHeader>& headers, std::int32_t last, std::int64_t waited_us);

  layout::Exchanges own_{};
  layout::Exchanges* const record_;
  SpanRing* const spans_;
  layout::ExchangeSpan span_{};  // of the exchange under way, or the last one
  bool is_pulse_ = false;
  Clock::time_point begun_, over_;
  Clock::time_point ended_;               // of the exchange before in which no rank only said that it lives, or zero
  std::vector<std::int64_t> awaited_us_;  // by rank: how long all others have waited for it
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_FIGURES_H_
