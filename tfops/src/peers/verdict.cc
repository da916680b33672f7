#include "peers/verdict.h"

#include <algorithm>
#include <utility>

namespace ascpipe {

namespace {

using Headers = std::vector<PeerHeader>;

bool Has(const Headers& headers, PeerKind kind) {
  return std::any_of(headers.begin(), headers.end(), [kind](const PeerHeader& h) { return h.kind == kind; });
}

bool All(const Headers& headers, PeerKind kind) {
  return std::all_of(headers.begin(), headers.end(), [kind](const PeerHeader& h) { return h.kind == kind; });
}

// Returns true if a field is equal in all headers.
template <typename Field>
bool Agree(const Headers& headers, Field PeerHeader::*field) {
  return std::all_of(headers.begin(), headers.end(),
                     [&](const PeerHeader& h) { return h.*field == headers[0].*field; });
}

bool SameBatch(const Headers& headers) {
  return Agree(headers, &PeerHeader::stream) && Agree(headers, &PeerHeader::run) &&
         Agree(headers, &PeerHeader::ticket) && Agree(headers, &PeerHeader::tables);
}

bool SameChanges(const Headers& headers) {
  return Agree(headers, &PeerHeader::changes) && Agree(headers, &PeerHeader::change_hash);
}

std::string WhatEachDoes(const Headers& headers) {
  std::string text = "the ranks do different things: ";
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const PeerHeader& h = headers[rank];
    text += Text(rank == 0 ? "" : "; ", "rank ", rank, " ", NameOf(h.kind));
    if (h.has_batch()) {
      text += Text(" batch ", h.ticket, " of iterator ", h.run, " of stream ", h.stream);
      if (!Agree(headers, &PeerHeader::tables)) text += Text(" with tables of number ", h.tables);
    }
    if (!SameChanges(headers)) text += Text(" after ", h.changes, " changes of tables");
  }
  const auto has_batch = [](const PeerHeader& h) { return h.has_batch(); };
  const bool apart = std::any_of(headers.begin(), headers.end(), has_batch) && !Agree(headers, &PeerHeader::kind);
  return text + (apart ? ". All ranks train, and all ranks evaluate or predict; or a process of its own does, from a "
                         "checkpoint"
                       : "");
}

VerdictKind Meaning(PeerKind kind) {
  switch (kind) {
    case PeerKind::kForward:
      return VerdictKind::kGo;
    case PeerKind::kBackward:
      return VerdictKind::kApply;
    default:
      return VerdictKind::kRows;
  }
}

}  // namespace

PeerVerdict Decide(const Headers& headers) {
  if (All(headers, PeerKind::kLeave)) return {VerdictKind::kLeft, 0, ""};
  const bool is_asked = headers[0].kind == PeerKind::kAsk && !Has(headers, PeerKind::kBackward);
  std::string causes;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (!headers[rank].cause.empty()) {
      causes += Text(causes.empty() ? "" : "; ", "rank ", rank, ": ", headers[rank].cause);
    }
  }
  const bool is_busy = Has(headers, PeerKind::kBusy);
  if ((is_busy || Has(headers, PeerKind::kIdle)) && !Has(headers, PeerKind::kBroken)) {
    // The next message of an idle or busy rank is unknown, so no step fails or starts. The verdict contains the causes.
    const bool begins = is_asked && !is_busy && causes.empty() && SameChanges(headers);
    return {begins ? VerdictKind::kAsked : VerdictKind::kAgain, 0, std::move(causes),
            headers[0].kind == PeerKind::kBusy || headers[0].kind == PeerKind::kAsk};
  }
  const VerdictKind failed = Has(headers, PeerKind::kBackward) ? VerdictKind::kPoison : VerdictKind::kFail;
  if (!causes.empty()) return {failed, 0, causes};
  if (is_asked && !Has(headers, PeerKind::kBroken)) {
    return SameChanges(headers) ? PeerVerdict{VerdictKind::kAsked, 0, ""}
                                : PeerVerdict{VerdictKind::kFail, 0, WhatEachDoes(headers)};
  }
  for (const PeerKind kind : {PeerKind::kAsk, PeerKind::kLeave, PeerKind::kBroken, PeerKind::kBusy}) {
    if (Has(headers, kind)) return {failed, 0, WhatEachDoes(headers)};
  }
  if (SameBatch(headers) && All(headers, headers[0].kind)) {
    if (headers[0].kind == PeerKind::kGate) {
      const bool exists = std::all_of(headers.begin(), headers.end(), [](const PeerHeader& h) { return h.exists; });
      return {exists ? VerdictKind::kBegin : VerdictKind::kOver, headers[0].stream, ""};
    }
    if (!SameChanges(headers)) return {failed, 0, WhatEachDoes(headers)};
    return {Meaning(headers[0].kind), headers[0].stream, ""};
  }
  if (!Has(headers, PeerKind::kBackward) && !Agree(headers, &PeerHeader::stream)) {
    return {VerdictKind::kTurn, headers[0].stream, ""};
  }
  return {failed, 0, WhatEachDoes(headers)};
}

}  // namespace ascpipe
