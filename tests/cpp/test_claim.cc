// Decision about a claim, for each value of the words.
#include "check.h"
#include "core/claim.h"

using namespace ascpipe;

namespace {

// Returns the words of a plan that may be claimed.
ClaimWords Good() {
  ClaimWords words;
  words.table = "user";
  words.ticket = 5;
  words.state = 7;
  words.word = layout::kPlanned;
  words.finished = 4;
  words.base = 4;
  words.device_rows = 10;
  return words;
}

// Returns the words of a plan that could not be made.  The table has at most 50 home rows.
ClaimWords Unplanned(layout::PlanStatus status, std::int64_t need, std::int64_t device_rows) {
  ClaimWords words = Good();
  words.status = status;
  words.need = need;
  words.device_rows = device_rows;
  words.home_rows = 50;
  return words;
}

void CheckWaits(const ClaimWords& words, layout::WaitsFor reason, bool wants) {
  const ClaimVerdict verdict = DecideClaim(words);
  CHECK_EQ(verdict.kind, ClaimVerdict::kWait);
  CHECK_EQ(verdict.waits_for, reason);
  CHECK_EQ(verdict.wants, wants);
}

void CheckRefuses(const ClaimWords& words, Code code, const char* text) {
  const ClaimVerdict verdict = DecideClaim(words);
  CHECK_EQ(verdict.kind, ClaimVerdict::kError);
  CHECK_EQ(static_cast<int>(verdict.error.code()), static_cast<int>(code));
  CHECK(verdict.error.text().find(text) != std::string::npos);
}

}  // namespace

TEST(APlanOnTheLastFinishedTicketIsReady) { CHECK_EQ(DecideClaim(Good()).kind, ClaimVerdict::kReady); }

TEST(AParkedTicketWaitsForRoom) {
  ClaimWords words = Good();
  words.state = Ticket::kParked;
  CheckWaits(words, layout::kWaitRoom, false);
}

TEST(WhatIsNotPlannedIsWanted) {
  for (const std::uint32_t word : {layout::kDeduped, layout::kTouched}) {
    ClaimWords words = Good();
    words.word = word;
    CheckWaits(words, layout::kWaitPlan, true);
  }
}

TEST(APlanWhoseRowsComeFromDiskWaitsForThem) {
  ClaimWords words = Good();
  words.word = layout::kTouched;
  words.awaits_rows = true;
  CheckWaits(words, layout::kWaitDisk, true);
}

TEST(WhatIsNotDeduplicatedWaitsForTheKeyWorkerAndIsWanted) {
  ClaimWords words = Good();
  words.word = layout::kSubmitted;
  CheckWaits(words, layout::kWaitKeys, true);
}

TEST(APlanOnAnotherTicketIsWantedAnew) {
  ClaimWords words = Good();
  words.base = 3;
  CheckWaits(words, layout::kWaitPlan, true);
}

TEST(APlanOnATicketThatIsNotFinishedWaits) {
  ClaimWords words = Good();
  words.finished = 3;  // ticket 4 was dropped, and the worker has not revoked the plan yet
  CheckWaits(words, layout::kWaitPlan, true);
}

TEST(AnEarlierOpenTicketGoesFirst) {
  ClaimWords words = Good();
  words.earlier_open = true;
  CheckWaits(words, layout::kWaitStep, false);
  words.word = layout::kTouched;
  CheckWaits(words, layout::kWaitStep, true);
}

TEST(AFinishedTicketIsNotTrainedAgain) {
  for (const std::int64_t finished : {5, 6}) {
    ClaimWords words = Good();
    words.finished = finished;
    words.base = finished;
    CheckRefuses(words, Code::kInvalidArgument, "sequential");
  }
}

TEST(AClosedTicketIsRefused) {
  ClaimWords words = Good();
  words.state = Ticket::kClosed;
  CheckRefuses(words, Code::kFailedPrecondition, "fetched and trained in one run");
}

TEST(ABatchThatCannotFitSaysWhatThePumpSaid) {
  ClaimWords words = Good();
  words.state = Ticket::kFailed;
  words.why = "needs 4711 bytes in the ring, which has 1024";
  CheckRefuses(words, Code::kResourceExhausted, "batch 5 needs 4711 bytes in the ring, which has 1024");
}

TEST(AFullTableNamesNeedAndLimit) {
  CheckRefuses(Unplanned(layout::kPlanTableFull, 12, 10), Code::kResourceExhausted,
               "'user' needs 12 device rows for batch 5, but has 10");
}

TEST(ABatchThatTheDeviceCannotHoldNamesTheSettingAndLosesNothing) {
  CheckRefuses(Unplanned(layout::kPlanDeviceSmall, 12, 10), Code::kResourceExhausted,
               "'user': batch 5 has 12 distinct ids that need a row on the device at once, but there are "
               "10 device rows. Raise device_vocabulary_size of the table to 12 or more, or use a smaller batch. "
               "Nothing was lost");
}

TEST(AFullHostNamesTheSettingAndLosesNothing) {
  const ClaimWords words = Unplanned(layout::kPlanHostFull, 51, 10);
  CheckRefuses(words, Code::kResourceExhausted,
               "'user' needs 51 host rows for batch 5, but has 50. Raise host_vocabulary_size of the table to 51");
  CheckRefuses(words, Code::kResourceExhausted, "Nothing was lost: this table did not take the batch");
}

TEST(AFullDiskTierNamesTheSettingOfRowsOnDisk) {
  ClaimWords words = Unplanned(layout::kPlanHostFull, 1003, 10);
  words.disk_rows = 1000;
  CheckRefuses(words, Code::kResourceExhausted,
               "'user' needs 1003 rows for batch 5, but has 1000 (host_vocabulary_size and ssd_vocabulary_size "
               "together). Raise ssd_vocabulary_size of the table by 3 or more");
}

TEST(AMachineWithoutMemoryNamesWhatWasWantedAndLosesNothing) {
  const ClaimWords words = Unplanned(layout::kPlanNoMemory, 4096, 10);
  CheckRefuses(words, Code::kResourceExhausted, "no shared memory left for 4096 entries or host rows, which batch 5");
  CheckRefuses(words, Code::kResourceExhausted, "(host_vocabulary_size allows 50). Give the machine");
  CheckRefuses(words, Code::kResourceExhausted, "Nothing was lost: this table did not take the batch");
}

TEST(AnExpansionTableThatCannotGrowSaysWhatHelpsAndNamesNoSize) {
  for (const layout::PlanStatus status : {layout::kPlanHostFull, layout::kPlanNoMemory}) {
    const ClaimWords words = Unplanned(status, 51, 0);
    CheckRefuses(words, Code::kResourceExhausted,
                 status == layout::kPlanHostFull
                     ? "'user' needs 51 rows for batch 5, but has grown to its limit of 50 rows"
                     : "no shared memory left for 51 entries or rows, which batch 5 needs. Give the machine");
    CheckRefuses(words, Code::kResourceExhausted, "feature eviction or a higher access_threshold");
    CheckRefuses(words, Code::kResourceExhausted, "Nothing was lost: this table did not take the batch");
    CHECK(DecideClaim(words).error.text().find("vocabulary_size") == std::string::npos);
  }
}

TEST(AFullTableIsAnErrorOnlyOfAPlanThatHolds) {
  ClaimWords words = Unplanned(layout::kPlanTableFull, 12, 10);
  words.base = 3;
  CheckWaits(words, layout::kWaitPlan, true);
}

TEST(AnUnknownStatusIsAnError) {
  ClaimWords words = Good();
  words.status = 9;
  CheckRefuses(words, Code::kDataLoss, "E301: table 'user': the record of ticket 5 has the unknown status 9");
}

TEST(ATicketThatAnotherOpClaimsIsRefused) {
  ClaimWords words = Good();
  words.word = layout::kClaimed;
  CheckRefuses(words, Code::kInvalidArgument, "one plan of a table per step");
}

TEST(AReadWaitsUntilItsKeysAreDistinctAndThenForTheAnswer) {
  ClaimWords words = Good();
  words.word = layout::kSubmitted;
  CHECK_EQ(DecideRead(words).waits_for, layout::kWaitKeys);
  words.word = layout::kDeduped;
  CHECK_EQ(DecideRead(words).kind, ClaimVerdict::kReady);
  words.word = layout::kAsked;
  CHECK_EQ(DecideRead(words).waits_for, layout::kWaitRead);
  words.word = layout::kAnswered;
  CHECK_EQ(DecideRead(words).kind, ClaimVerdict::kReady);
  words.word = layout::kDone;
  CHECK_EQ(DecideRead(words).kind, ClaimVerdict::kError);
}

TEST(AReadOfAClosedTicketIsRefused) {
  ClaimWords words = Good();
  words.state = Ticket::kClosed;
  CHECK_EQ(static_cast<int>(DecideRead(words).error.code()), static_cast<int>(Code::kFailedPrecondition));
}
