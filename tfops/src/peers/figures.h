// Statistics of a rank's exchanges for `ascpipe status` and `ascpipe timeline`. The statistics also show which rank the
// other ranks have waited for.
#ifndef ASCPIPE_PEERS_FIGURES_H_
#define ASCPIPE_PEERS_FIGURES_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "core/span_ring.h"
#include "peers/header.h"

namespace ascpipe {

// Only one thread may use a PeerFigures object. An exchange ends at nearly the same time on all ranks. The busy time of
// a rank is the time from the end of an exchange to the start of the rank's next exchange. Therefore the other ranks
// wait for the rank with the longest busy time. The clocks of ranks are not compared.
class PeerFigures {
 public:
  using Clock = std::chrono::steady_clock;

  // `shared` is shared memory for the statistics, or null. `spans` is the ring for the recorded exchanges, or null.
  PeerFigures(layout::Exchanges* shared, SpanRing<layout::ExchangeSpan>* spans, int rank, int ranks);

  // Starts an exchange. Returns the time in us since the previous exchange of this rank. Returns 0 for the first
  // exchange.
  std::int64_t Begin(const PeerHeader& header, Clock::time_point now);
  void Sent(const std::vector<std::int64_t>& sizes);  // bytes, by rank
  // Ends an exchange. The time of a heartbeat is not counted.
  void End(const std::vector<std::int64_t>& sizes, Clock::time_point now);
  // Compares the headers of all ranks and records the exchange.
  void Compare(const std::vector<PeerHeader>& headers);

 private:
  void Record(const std::vector<PeerHeader>& headers, std::int32_t last, std::int64_t waited_us);

  layout::Exchanges own_{};
  layout::Exchanges* const record_;
  SpanRing<layout::ExchangeSpan>* const spans_;
  layout::ExchangeSpan span_{};  // the exchange in flight, or the last exchange
  bool is_pulse_ = false;
  Clock::time_point begun_, over_;
  Clock::time_point ended_;               // end of the last exchange without a heartbeat, or zero
  std::vector<std::int64_t> awaited_us_;  // by rank: total time that the other ranks have waited for this rank
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_FIGURES_H_
