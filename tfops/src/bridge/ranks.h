// What a process of several ranks has: its place among them, what it exchanges with them, and its streams.
#ifndef ASCPIPE_BRIDGE_RANKS_H_
#define ASCPIPE_BRIDGE_RANKS_H_

#include <memory>
#include <string>
#include <utility>

#include "peers/peers.h"
#include "peers/ranked_stream.h"

namespace ascpipe {

class Ranks {
 public:
  struct Settings {
    Peers::Settings peers;
    int close_timeout_ms = 0;  // how long the end of the pipeline waits for other ranks
  };

  Ranks(std::unique_ptr<Transport> transport, const Settings& settings)
      : settings_(settings), peers_(std::move(transport), &streams_, settings.peers) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  RankedStreams& streams() { return streams_; }
  Peers& peers() { return peers_; }

  // Tells the others that this rank makes no exchange that they wait for.
  void SayFailed(PeerHeader header, std::string cause) {
    PeerRequest request;
    header.cause = std::move(cause);
    request.header = std::move(header);
    request.done = [](const PeerVerdict&, const Received&) {};
    peers_.ExchangeNext(std::move(request));
  }

  void Stop() { peers_.Stop(settings_.close_timeout_ms); }

 private:
  const Settings settings_;
  RankedStreams streams_;
  Peers peers_;  // its thread uses the streams
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RANKS_H_
