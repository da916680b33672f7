// The messages of one exchange: of each rank a header, its signature if it is news, keys and rows.
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

// Bytes that are put into a message, or lie in one.
struct Piece {
  const void* data;
  std::int64_t bytes;
};

// A section of the messages of all ranks.
struct Received {
  std::shared_ptr<const void> keeps;  // the bytes
  std::vector<Piece> from;            // by rank
};

// The sections of the messages to each rank.
struct Sections {
  std::string signature;  // the same to all, as are the next two; empty: it is no news
  std::string facts;      // of the step; empty: they are no news
  std::string answer;     // to what rank 0 asked for; empty: none
  std::vector<std::vector<Piece>> keys, rows;
};

// What all ranks said in one exchange.
struct Messages {
  std::vector<PeerHeader> headers;
  std::vector<std::string> signatures;  // empty: no news
  std::vector<std::string> facts;       // likewise
  std::vector<std::string> answers;     // empty: none
  Received keys, rows;
};

std::int64_t BytesOf(const std::vector<Piece>& pieces);

// Makes the messages to all ranks, in *buffer unless others still have that.
Parcel MakeMessages(const PeerHeader& header, const Sections& sections,
                    std::shared_ptr<std::vector<std::uint8_t>>* buffer);
// Reads those of `ranks` ranks, of exchange `sequence`.
CoreStatus ReadMessages(const Parcel& parcel, int ranks, std::int64_t sequence, Messages* messages);
// Whether each rank has ended, so that no more needs to be said.
bool AllHaveEnded(const Parcel& parcel);

std::uint64_t HashOf(const std::string& text);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_MESSAGE_H_
