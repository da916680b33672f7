// Latency histogram of operations, with four buckets for each doubling of the latency.
#ifndef ASCPIPE_DISK_LATENCY_H_
#define ASCPIPE_DISK_LATENCY_H_

#include <cmath>
#include <cstdint>

namespace ascpipe {

class Latency {
 public:
  void Note(std::int64_t ns) {
    const double us = static_cast<double>(ns) / 1000;
    const int at = us <= 1 ? 0 : static_cast<int>(std::ceil(std::log2(us) * kPerDoubling));
    ++counts_[at < kCounts ? at : kCounts - 1];
    ++total_;
  }

  // Returns a quantile in whole microseconds, rounded up. `share` is in (0, 1]: for example, 0.99 is the 99th
  // percentile. Before rounding, the result is at most 20 % too high. The result is 0 if there were no operations.
  std::int64_t Quantile(double share) const {
    const std::int64_t wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(total_)));
    std::int64_t seen = 0;
    for (int at = 0; at < kCounts && total_ > 0; ++at) {
      seen += counts_[at];
      if (seen >= wanted) return static_cast<std::int64_t>(std::ceil(std::exp2(double{1} * at / kPerDoubling)));
    }
    return 0;
  }

  std::int64_t total() const { return total_; }

 private:
  static constexpr int kPerDoubling = 4, kCounts = 128;  // for latencies up to one hour

  std::int64_t counts_[kCounts] = {};
  std::int64_t total_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_LATENCY_H_
