#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"
#include "peers/ranked_stream.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMostTables = 1 << 16;

}  // namespace

void RankedStreams::Add(std::unique_ptr<RankedStream> stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int number = stream->number();
  streams_[number] = std::move(stream);
}

RankedStream* RankedStreams::Find(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
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
      RankedStream::Head head;
      CoreStatus status;
      if (left >= static_cast<std::int64_t>(sizeof(head))) std::memcpy(&head, data, sizeof(head));
      if (left < static_cast<std::int64_t>(sizeof(head)) || head.bytes < static_cast<std::int64_t>(sizeof(head)) ||
          head.bytes > left || head.tables < 0 || head.tables > kMostTables) {
        status = Error(kE301, "rank ", rank, " sent keys whose head does not fit ", left, " bytes; restart all ranks");
      } else {
        const bool is_number = head.stream >= 0 && head.stream <= INT32_MAX;
        RankedStream* const stream = is_number ? Find(static_cast<int>(head.stream)) : nullptr;
        status = stream == nullptr
                     ? Error(kE301, "rank ", rank, " sent keys of stream ", head.stream, ", which is not here")
                     : stream->Unpack(static_cast<int>(rank), head, data + sizeof(head),
                                      head.bytes - static_cast<std::int64_t>(sizeof(head)));
      }
      if (!status.ok()) return status;
      data += head.bytes;
      left -= head.bytes;
    }
  }
  return CoreStatus();
}

}  // namespace ascpipe
