// How bytes get from each rank to each other one.
#ifndef ASCPIPE_PEERS_TRANSPORT_H_
#define ASCPIPE_PEERS_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/core_status.h"

namespace ascpipe {

// Bytes for, or from, each rank, one behind the other.
struct Parcel {
  std::shared_ptr<std::vector<std::uint8_t>> bytes;  // may be longer
  std::vector<std::int64_t> sizes;                   // by rank
};

// Of all that one rank sends, or gets: MPI counts it in words of 8 bytes, as int.
constexpr std::int64_t kMostParcelBytes = (std::int64_t{1} << 31) * 8 - 64;

class Transport {
 public:
  using Done = std::function<void(const CoreStatus&, Parcel)>;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Begins one exchange with all ranks; the one before is over.  `done` is called once, on any thread, also long after.
  // All sizes are multiples of kSectionUnit.
  virtual void Start(Parcel parcel, Done done) = 0;
  // Ends the engine on all ranks, and with it whatever the program has under way in it.  Does not wait.
  virtual void End() {}
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_TRANSPORT_H_
