#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"
#include "peers/ranked_stream.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMostTables = 1 << 16;
constexpr std::int64_t kMostStreams = 32;  // per session, as in ascpipe/control/messages.py

}  // namespace

CoreStatus RankedStreams::Add(std::unique_ptr<RankedStream> stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  RankedStream* const added = stream.get();
  streams_[added->number()] = std::move(stream);
  const std::vector<Early> early = std::move(early_[added->number()]);
  early_.erase(added->number());
  for (const Early& one : early) {
    const CoreStatus status = Unpack(added, one.from, one.bytes.data());
    if (!status.ok()) return status;
  }
  return CoreStatus();
}

RankedStream* RankedStreams::Find(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Known(number);
}

RankedStream* RankedStreams::Known(std::int64_t number) const {
  const auto found = streams_.find(number);
  return found == streams_.end() ? nullptr : found->second.get();
}

bool RankedStreams::IsKnown(const PeerHeader& gate) const {
  const RankedStream* const stream = Find(gate.stream);
  return stream != nullptr && stream->IsKnown({gate.run, gate.ticket});
}

void RankedStreams::Pack(const PeerHeader& header, std::vector<std::vector<Piece>>* to,
                         std::shared_ptr<const void>* keeps) {
  const auto kept = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& stream : streams_) {
    const bool asks = header.kind == PeerKind::kGate && header.stream == stream.first;
    stream.second->Pack(asks ? BatchName{header.run, header.ticket} : BatchName(), to, kept.get());
  }
  *keeps = kept;
}

CoreStatus RankedStreams::Unpack(const Received& keys) {
  for (std::size_t rank = 0; rank < keys.from.size(); ++rank) {
    const std::uint8_t* data = static_cast<const std::uint8_t*>(keys.from[rank].data);
    std::int64_t left = keys.from[rank].bytes;
    while (left > 0) {
      AskedHead head;
      CoreStatus status;
      if (left >= static_cast<std::int64_t>(sizeof(head))) std::memcpy(&head, data, sizeof(head));
      if (left < static_cast<std::int64_t>(sizeof(head)) || head.bytes < static_cast<std::int64_t>(sizeof(head)) ||
          head.bytes > left || head.tables < 0 || head.tables > kMostTables) {
        status = Error(kE301, "rank ", rank, " sent keys whose head does not fit ", left, " bytes; restart all ranks");
      } else {
        std::lock_guard<std::mutex> lock(mutex_);
        RankedStream* const stream = Known(head.stream);
        if (stream != nullptr) {
          status = Unpack(stream, static_cast<int>(rank), data);
        } else if (head.stream >= 0 && head.stream < kMostStreams) {
          early_[head.stream].push_back({static_cast<int>(rank), std::vector<std::uint8_t>(data, data + head.bytes)});
        } else {
          status = Error(kE301, "rank ", rank, " sent keys of stream ", head.stream, ", which cannot be");
        }
      }
      if (!status.ok()) return status;
      data += head.bytes;
      left -= head.bytes;
    }
  }
  return CoreStatus();
}

// Passes the keys of a rank to a stream. `data` starts with a checked head.
CoreStatus RankedStreams::Unpack(RankedStream* stream, int from, const std::uint8_t* data) {
  AskedHead head;
  std::memcpy(&head, data, sizeof(head));
  return stream->Unpack(from, head, data + sizeof(head), head.bytes - static_cast<std::int64_t>(sizeof(head)));
}

}  // namespace ascpipe
