// Reads lines "ranks, then for each rank: kind stream run ticket exists changes has_cause".  For each line, prints the
// number of the verdict, its stream, and its cause.
#include <iostream>

#include "peers/verdict.h"

int main() {
  int ranks = 0;
  while (std::cin >> ranks) {
    std::vector<ascpipe::PeerHeader> headers(static_cast<std::size_t>(ranks));
    for (ascpipe::PeerHeader& header : headers) {
      int kind = 0, exists = 0, has_cause = 0;
      std::cin >> kind >> header.stream >> header.run >> header.ticket >> exists >> header.changes >> has_cause;
      header.kind = static_cast<ascpipe::PeerKind>(kind);
      header.exists = exists != 0;
      if (has_cause != 0) header.cause = "its step fails";
    }
    const ascpipe::PeerVerdict verdict = ascpipe::Decide(headers);
    std::cout << static_cast<int>(verdict.kind) << ' ' << verdict.stream << ' ' << verdict.cause << '\n';
  }
  return 0;
}
