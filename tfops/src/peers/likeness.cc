#include "peers/likeness.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "core/core_status.h"

namespace ascpipe {

namespace {

constexpr std::size_t kMostShown = 80;  // maximum number of bytes of a printed value

using Items = std::vector<std::pair<std::string, std::string>>;

Items ItemsOf(const std::string& text) {
  Items items;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = std::min(line.find('\t'), line.size());
    items.emplace_back(line.substr(0, tab), line.substr(std::min(tab + 1, line.size())));
  }
  return items;
}

bool BeginsWith(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

// Returns the part of a value that differs from another value.
std::string Shown(const std::string& value, const std::string& other) {
  if (value.size() <= kMostShown) return value.empty() ? "nothing" : value;
  const std::size_t most = std::min(value.size(), other.size());
  const auto apart = std::mismatch(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(most), other.begin());
  const std::size_t at = static_cast<std::size_t>(apart.first - value.begin());
  const std::size_t begin = at < kMostShown / 2 ? 0 : std::min(at - kMostShown / 2, value.size() - kMostShown);
  return (begin > 0 ? "..." : "") + value.substr(begin, kMostShown) + (begin + kMostShown < value.size() ? "..." : "");
}

class Comparison {
 public:
  Comparison(const std::string& first, const std::string& other, std::size_t rank)
      : mine_(ItemsOf(first)), its_(ItemsOf(other)), rank_(rank) {}

  // Returns the first difference among the items that `counts` accepts. An item that only one rank has is a difference
  // only if `counts_alone` also accepts it.
  template <typename Counts, typename CountsAlone>
  std::string First(const Counts& counts, const CountsAlone& counts_alone) const {
    const std::map<std::string, std::string> its(its_.begin(), its_.end()), mine(mine_.begin(), mine_.end());
    for (const auto& item : mine_) {
      if (!counts(item.first)) continue;
      const auto found = its.find(item.first);
      if (found == its.end()) {
        if (counts_alone(item.first, rank_)) return Alone(item.first, 0, rank_);
      } else if (found->second != item.second) {
        return Text(item.first, " is ", Shown(item.second, found->second), " on rank 0 and ",
                    Shown(found->second, item.second), " on rank ", rank_);
      }
    }
    for (const auto& item : its_) {
      if (counts(item.first) && mine.count(item.first) == 0 && counts_alone(item.first, std::size_t{0})) {
        return Alone(item.first, rank_, 0);
      }
    }
    return "";
  }

 private:
  static std::string Alone(const std::string& item, std::size_t has, std::size_t lacks) {
    return Text(item, " is there on rank ", has, " and not on rank ", lacks);
  }

  const Items mine_, its_;
  const std::size_t rank_;
};

}  // namespace

std::string DifferenceOf(const std::vector<std::string>& texts) {
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const Comparison comparison(texts[0], texts[rank], rank);
    const std::string found =
        comparison.First([](const std::string&) { return true; }, [](const std::string&, std::size_t) { return true; });
    if (!found.empty()) return found;
    return Text("the order of tables and streams is another one on rank ", rank, " than on rank 0");
  }
  return "";
}

std::string DifferenceOfSteps(const std::vector<std::string>& texts, const std::vector<std::string>& collectives,
                              std::string* apart) {
  const auto lacks = [&collectives](const std::string& item, std::size_t rank) {
    const Items known = ItemsOf(collectives[rank]);
    return std::none_of(known.begin(), known.end(), [&item](const Items::value_type& o) { return o.first == item; });
  };
  const auto is_collective = [](const std::string& item) { return BeginsWith(item, kCollectiveItem); };
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const Comparison comparison(texts[0], texts[rank], rank);
    // Collectives are compared last. If the names of collectives differ, the cause is usually a difference of another
    // item, and an error message about that item is more precise.
    std::string found =
        comparison.First([&](const std::string& item) { return !is_collective(item); },
                         [](const std::string& item, std::size_t) { return !BeginsWith(item, kVariableItem); });
    if (found.empty()) found = comparison.First(is_collective, lacks);
    if (!found.empty()) return found;
    if (apart->empty()) {
      *apart = comparison.First(is_collective, [](const std::string&, std::size_t) { return true; });
    }
  }
  return "";
}

}  // namespace ascpipe
