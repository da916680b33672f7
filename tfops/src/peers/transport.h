// Interface that transports bytes between all ranks.
#ifndef ASCPIPE_PEERS_TRANSPORT_H_
#define ASCPIPE_PEERS_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/core_status.h"

namespace ascpipe {

// Bytes to or from all ranks, concatenated in rank order.
struct Parcel {
  std::shared_ptr<std::vector<std::uint8_t>> bytes;  // may be longer than the sum of `sizes`
  std::vector<std::int64_t> sizes;                   // by rank
};

// Maximum number of bytes that one rank sends or receives. MPI counts units of 8 bytes in an int.
constexpr std::int64_t kMostParcelBytes = (std::int64_t{1} << 31) * 8 - 64;

class Transport {
 public:
  using Done = std::function<void(const CoreStatus&, Parcel)>;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Starts an exchange with all ranks. The previous exchange must have ended. `done` is called once, on any thread,
  // possibly much later. All sizes must be multiples of kSectionUnit.
  virtual void Start(Parcel parcel, Done done) = 0;
  // Shuts down the engine (Horovod) on all ranks. The shutdown aborts all Horovod operations of the program. End does
  // not block.
  virtual void End() {}
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_TRANSPORT_H_
