// Functions of Peers that compare the properties that must be equal on all ranks, and explain failed exchanges.
#include <algorithm>

#include "core/error_codes.gen.h"
#include "core/late_waits.h"
#include "peers/likeness.h"
#include "peers/peers.h"

namespace ascpipe {

// Stores signatures and facts. A rank sends its signature and each text of facts only once.
void Peers::Learn(const Messages& messages) {
  for (std::size_t rank = 0; rank < signatures_.size(); ++rank) {
    const std::string& both = messages.signatures[rank];
    if (!both.empty()) {
      const std::size_t end = std::min(both.find(kSignatureEnd), both.size());
      signatures_[rank] = both.substr(0, end);
      collectives_[rank] = both.substr(std::min(end + 1, both.size()));
    }
    if (!messages.facts[rank].empty()) facts_[rank][messages.headers[rank].facts] = messages.facts[rank];
  }
}

// Returns the first difference between ranks. Returns "" if the ranks do not differ. All ranks return the same result,
// because all ranks have received the same messages.
std::string Peers::Difference(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict) {
  const auto differ = [&headers](std::uint64_t PeerHeader::*field) {
    return std::any_of(headers.begin(), headers.end(),
                       [&](const PeerHeader& h) { return h.*field != headers[0].*field; });
  };
  if (differ(&PeerHeader::signature) && verdict.kind != VerdictKind::kLeft) return DifferenceOf(signatures_);
  const bool begins = verdict.kind == VerdictKind::kGo || verdict.kind == VerdictKind::kRows;
  if (!begins || !differ(&PeerHeader::facts)) return "";
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) texts.push_back(facts_[rank][headers[rank].facts]);
  std::string apart;
  const std::string found = DifferenceOfSteps(texts, collectives_, &apart);
  if (found.empty() && !apart.empty() && !told_apart_) {
    told_apart_ = true;
    SayLine(Text("ascpipe: in one step, ", apart, ". Unless that rank runs it by itself, both ranks wait for ever"));
  }
  return found;
}

// Adds the code and the remedy to the cause of a failure.
void Peers::Explain(PeerVerdict* verdict) const {
  if (verdict->kind == VerdictKind::kFail) {
    verdict->cause = Error(kE314, verdict->cause, ". No table was changed by this step").text();
  } else if (verdict->kind == VerdictKind::kAgain && !verdict->cause.empty()) {
    verdict->cause = Error(kE314, verdict->cause).text();
  } else if (verdict->kind == VerdictKind::kPoison) {
    verdict->cause = Error(kE311, "a step was applied to some tables only: ", verdict->cause,
                           ". Earlier checkpoints are complete; restart all ranks from the last checkpoint")
                         .text();
  }
}

}  // namespace ascpipe
