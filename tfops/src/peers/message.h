// Messages of one exchange. A message contains a header and five sections: signature, facts, answer, keys and rows.
#ifndef ASCPIPE_PEERS_MESSAGE_H_
#define ASCPIPE_PEERS_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "peers/header.h"
#include "peers/transport.h"

namespace ascpipe {

// View of the bytes of a message. A Piece does not own the bytes.
struct Piece {
  const void* data;
  std::int64_t bytes;
};

// One section, for example the keys, of the messages from all ranks.
struct Received {
  std::shared_ptr<const void> keeps;  // keeps the bytes alive
  std::vector<Piece> from;            // by rank
};

// Data to send to all ranks in one exchange, by section.
struct Sections {
  std::string signature;  // sent to all ranks, like the next two members; empty: not sent
  std::string facts;      // facts of the step; empty: not sent
  std::string answer;     // answer to a request of rank 0; empty: none
  std::vector<std::vector<Piece>> keys, rows;
};

// Contents of the messages of all ranks.
struct Messages {
  std::vector<PeerHeader> headers;
  std::vector<std::string> signatures;  // empty: not sent
  std::vector<std::string> facts;       // empty: not sent
  std::vector<std::string> answers;     // empty: none
  Received keys, rows;
};

std::int64_t BytesOf(const std::vector<Piece>& pieces);

// Builds the messages to all ranks. Reuses *buffer if it has no other users.
Parcel MakeMessages(const PeerHeader& header, const Sections& sections,
                    std::shared_ptr<std::vector<std::uint8_t>>* buffer);
// Parses the messages of `ranks` ranks. `sequence` is the number of the exchange.
CoreStatus ReadMessages(const Parcel& parcel, int ranks, std::int64_t sequence, Messages* messages);
// Returns true if each rank has ended, so that no further exchange is needed.
bool AllHaveEnded(const Parcel& parcel);

std::uint64_t HashOf(const std::string& text);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_MESSAGE_H_
