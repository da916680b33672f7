// Wire format of the keys that one rank requests from another rank in one batch (docs/internals/protocol.md, "The
// section of keys").
#ifndef ASCPIPE_PEERS_ASKED_KEYS_H_
#define ASCPIPE_PEERS_ASKED_KEYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "peers/message.h"

namespace ascpipe {

// Returns the rank that owns a key: |key| modulo the number of ranks. ascpipe/kernels/dealing.py uses the same formula.
inline int OwnerOf(std::int64_t key, int ranks) {
  const std::uint64_t magnitude = key < 0 ? 0 - static_cast<std::uint64_t>(key) : static_cast<std::uint64_t>(key);
  return static_cast<int>(magnitude % static_cast<std::uint64_t>(ranks));
}

// Head of one batch. The head is followed by int64[tables] with the number of keys of each table. After the numbers of
// keys, each table has keys int64[count] and weights int32[count]. Each array is padded to 8 bytes.
struct AskedHead {
  std::int64_t bytes;  // total, including this head
  std::int64_t stream;
  std::int64_t run;
  std::int64_t index;
  std::int64_t timestamp;
  std::int64_t closed;  // 1: the rank cannot train this batch and requests nothing
  std::int64_t tables;
  std::int64_t position;  // fingerprint of the ReadPosition of the batch
};

// Distinct keys of one table in a frame, ordered by owner, and the number of occurrences of each key.
struct FrameKeys {
  const std::int64_t* unique;
  const std::int32_t* occurrences;
  const std::vector<std::int64_t>* owners;  // [ranks + 1], starting at 0: boundaries of the keys of each owner
};

// Appends the keys that a rank requests from each owner in one batch. `keys` has one element per table. `keys` is null
// if the rank cannot train the batch. Sets `bytes` and `closed` of the head.
void PutAsked(AskedHead head, const std::vector<FrameKeys>* keys, std::vector<std::vector<Piece>>* to,
              std::vector<std::shared_ptr<const void>>* keeps);

// Keys that one rank requests from this rank in one batch.
struct Asked {
  bool came = false;
  bool closed = false;
  std::int64_t timestamp = 0;
  std::int64_t position = 0;
  std::vector<std::vector<std::int64_t>> keys;     // by table
  std::vector<std::vector<std::int32_t>> weights;  // by table
};

// The requesting rank, and the values against which its request is checked.
struct AskedBy {
  int from, rank, ranks;  // requesting rank, this rank, number of ranks
  int stream;
  std::int64_t tables;
};

// Parses and checks the data after a head.
CoreStatus ReadAsked(const AskedHead& head, const std::uint8_t* data, std::int64_t bytes, const AskedBy& by,
                     Asked* asked);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_ASKED_KEYS_H_
