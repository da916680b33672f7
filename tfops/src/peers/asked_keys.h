// The keys that one rank asks of another rank in one batch, as they travel (docs/internals/protocol.md, "The section of
// keys").
#ifndef ASCPIPE_PEERS_ASKED_KEYS_H_
#define ASCPIPE_PEERS_ASKED_KEYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "peers/message.h"

namespace ascpipe {

// The rank that owns a key: |key| modulo the number of ranks, as workers deal keys (ascpipe/kernels/dealing.py).
inline int OwnerOf(std::int64_t key, int ranks) {
  const std::uint64_t magnitude = key < 0 ? 0 - static_cast<std::uint64_t>(key) : static_cast<std::uint64_t>(key);
  return static_cast<int>(magnitude % static_cast<std::uint64_t>(ranks));
}

// What a rank says of one batch, before counts int64[tables], then of each table keys int64[count] and weights
// int32[count], each array filled up to 8 bytes.
struct AskedHead {
  std::int64_t bytes;  // of all, this included
  std::int64_t stream;
  std::int64_t run;
  std::int64_t index;
  std::int64_t timestamp;
  std::int64_t closed;  // 1: the rank cannot train this batch any more, and asks for nothing
  std::int64_t tables;
  std::int64_t reserved;
};

// Distinct keys of one table in a frame, ordered by owner, and how often each occurs.
struct FrameKeys {
  const std::int64_t* unique;
  const std::int32_t* occurrences;
  const std::vector<std::int64_t>* owners;  // [ranks + 1], from 0 on: the keys of each owner
};

// Appends what a rank asks of each owner in one batch.  `keys`: by table; null: it asks for nothing.  Sets bytes and
// closed of the head.
void PutAsked(AskedHead head, const std::vector<FrameKeys>* keys, std::vector<std::vector<Piece>>* to,
              std::vector<std::shared_ptr<const void>>* keeps);

// What one rank asks of this one in one batch.
struct Asked {
  bool came = false;
  bool closed = false;
  std::int64_t timestamp = 0;
  std::vector<std::vector<std::int64_t>> keys;     // by table
  std::vector<std::vector<std::int32_t>> weights;  // likewise
};

// Which rank asks, and what it may ask.
struct AskedBy {
  int from, rank, ranks;  // the rank that asks, this one, and how many there are
  int stream;
  std::int64_t tables;
};

// Reads and checks what follows a head.
CoreStatus ReadAsked(const AskedHead& head, const std::uint8_t* data, std::int64_t bytes, const AskedBy& by,
                     Asked* asked);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_ASKED_KEYS_H_
