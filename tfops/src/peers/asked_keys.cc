#include "peers/asked_keys.h"

#include <algorithm>
#include <cstring>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

std::int64_t Filled(std::int64_t bytes) { return (bytes + 7) & ~std::int64_t{7}; }

const std::int64_t kZeros = 0;  // padding of arrays

}  // namespace

void PutAsked(AskedHead head, const std::vector<FrameKeys>* keys, std::vector<std::vector<Piece>>* to,
              std::vector<std::shared_ptr<const void>>* keeps) {
  constexpr std::size_t kHeadWords = sizeof(AskedHead) / sizeof(std::int64_t);
  head.closed = keys == nullptr ? 1 : 0;
  for (std::size_t rank = 0; rank < to->size(); ++rank) {
    const auto words = std::make_shared<std::vector<std::int64_t>>(kHeadWords + static_cast<std::size_t>(head.tables));
    std::vector<Piece>& pieces = (*to)[rank];
    pieces.push_back({words->data(), static_cast<std::int64_t>(words->size() * sizeof(std::int64_t))});
    head.bytes = pieces.back().bytes;
    for (std::size_t table = 0; keys != nullptr && table < keys->size(); ++table) {
      const std::vector<std::int64_t>& owners = *(*keys)[table].owners;
      const std::int64_t begin = owners[rank], count = owners[rank + 1] - begin;
      (*words)[kHeadWords + table] = count;
      pieces.push_back({(*keys)[table].unique + begin, count * 8});
      pieces.push_back({(*keys)[table].occurrences + begin, count * 4});
      if (count % 2 != 0) pieces.push_back({&kZeros, 4});
      head.bytes += count * 8 + Filled(count * 4);
    }
    std::memcpy(words->data(), &head, sizeof(head));
    keeps->push_back(words);
  }
}

CoreStatus ReadAsked(const AskedHead& head, const std::uint8_t* data, std::int64_t bytes, const AskedBy& by,
                     Asked* asked) {
  const std::int64_t tables = by.tables;
  const int from = by.from;
  const char* const lost = ". The batch was not taken, and nothing else is lost; restart all ranks";
  if (head.tables != tables || bytes < tables * 8) {
    return Error(kE301, "rank ", from, " sent keys of ", head.tables, " tables in stream ", by.stream, ", which has ",
                 tables, lost);
  }
  if (head.run < 1 || head.index < 1 || head.closed < 0 || head.closed > 1) {
    return Error(kE301, "rank ", from, " sent keys of batch ", head.index, " of iterator ", head.run, " of stream ",
                 by.stream, ", closed ", head.closed, lost);
  }
  asked->came = true;
  asked->closed = head.closed != 0;
  asked->timestamp = head.timestamp;
  asked->position = head.position;
  asked->keys.resize(static_cast<std::size_t>(tables));
  asked->weights.resize(static_cast<std::size_t>(tables));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tables));
  std::memcpy(counts.data(), data, static_cast<std::size_t>(tables) * 8);
  std::int64_t at = tables * 8;
  for (std::size_t table = 0; table < counts.size(); ++table) {
    const std::int64_t count = counts[table];
    if (count < 0 || (asked->closed && count > 0) || count > (bytes - at) / 12 ||
        at + count * 8 + Filled(count * 4) > bytes) {
      return Error(kE301, "rank ", from, " sent ", count, " keys of table ", table, " of stream ", by.stream, " in ",
                   bytes - at, " bytes", lost);
    }
    const std::size_t size = static_cast<std::size_t>(count);
    asked->keys[table].resize(size);
    asked->weights[table].resize(size);
    if (count > 0) std::memcpy(asked->keys[table].data(), data + at, size * 8);
    if (count > 0) std::memcpy(asked->weights[table].data(), data + at + count * 8, size * 4);
    at += count * 8 + Filled(count * 4);
    const auto foreign = std::find_if(asked->keys[table].begin(), asked->keys[table].end(),
                                      [&by](std::int64_t key) { return OwnerOf(key, by.ranks) != by.rank; });
    if (foreign != asked->keys[table].end()) {
      return Error(kE301, "rank ", from, " asks rank ", by.rank, " for key ", *foreign, " of table ", table,
                   ", which rank ", OwnerOf(*foreign, by.ranks), " owns", lost);
    }
    const auto& weights = asked->weights[table];
    const auto negative = std::find_if(weights.begin(), weights.end(), [](std::int32_t weight) { return weight < 0; });
    if (negative != weights.end()) {
      return Error(kE301, "rank ", from, " sent a key of table ", table, " that occurs ", *negative, " times", lost);
    }
  }
  if (at != bytes) {
    return Error(kE301, "rank ", from, " sent ", bytes - at, " bytes behind its keys of stream ", by.stream, lost);
  }
  return CoreStatus();
}

}  // namespace ascpipe
