// Properties that ranks compare but that the model does not contain: the tables of a step, and the changes of tables.
#include "check.h"
#include "peers/verdict.h"

using namespace ascpipe;

namespace {

std::vector<PeerHeader> Two(PeerKind kind) {
  std::vector<PeerHeader> headers(2);
  for (PeerHeader& header : headers) {
    header.kind = kind;
    header.stream = 1;
    header.run = 2;
    header.ticket = 3;
  }
  return headers;
}

bool Says(const PeerVerdict& verdict, const std::string& text) { return verdict.cause.find(text) != std::string::npos; }

}  // namespace

TEST(RanksWhoseStepsUseOtherTablesFailAndTheErrorNamesThem) {
  for (const PeerKind kind : {PeerKind::kGate, PeerKind::kForward, PeerKind::kRead}) {
    std::vector<PeerHeader> headers = Two(kind);
    headers[1].tables = 17;
    const PeerVerdict verdict = Decide(headers);
    CHECK(verdict.kind == VerdictKind::kFail);
    CHECK(Says(verdict, "with tables of number 17"));
  }
  std::vector<PeerHeader> headers = Two(PeerKind::kBackward);
  headers[1].tables = 17;
  CHECK(Decide(headers).kind == VerdictKind::kPoison);
}

TEST(RanksWithAsManyChangesThatAreNotTheSameFail) {
  for (const PeerKind kind : {PeerKind::kForward, PeerKind::kRead, PeerKind::kAsk}) {
    std::vector<PeerHeader> headers = Two(kind);
    headers[1].change_hash = 1;
    CHECK(Decide(headers).kind == VerdictKind::kFail);
  }
}

TEST(ARankThatIsIdleLearnsWhyOthersFail) {
  std::vector<PeerHeader> headers = Two(PeerKind::kLeave);
  headers[0].cause = "KeyboardInterrupt";
  CHECK(Decide(headers).kind == VerdictKind::kLeft);
  headers[1].kind = PeerKind::kForward;
  CHECK(Decide(headers).kind == VerdictKind::kFail);
  CHECK_EQ(Decide(headers).cause, "rank 0: KeyboardInterrupt");
  headers[1].kind = PeerKind::kIdle;
  CHECK(Decide(headers).kind == VerdictKind::kAgain);
  CHECK_EQ(Decide(headers).cause, "rank 0: KeyboardInterrupt");
}

TEST(AFailureSaysWhatEachRankDoes) {
  std::vector<PeerHeader> headers = Two(PeerKind::kForward);
  headers[0].kind = PeerKind::kLeave;
  headers[1].changes = 4;
  const PeerVerdict verdict = Decide(headers);
  CHECK(verdict.kind == VerdictKind::kFail);
  CHECK_EQ(verdict.cause,
           "the ranks do different things: rank 0 has ended after 0 changes of tables; rank 1 "
           "trains batch 3 of iterator 2 of stream 1 after 4 changes of tables. All ranks train, and all "
           "ranks evaluate or predict; or a process of its own does, from a checkpoint");
}
