// Which steps may have the lease at the same time.
#include "check.h"
#include "core/lease.h"

using ascpipe::Lease;

TEST(OneStepTrainsAtATime) {
  Lease lease;
  CHECK(lease.TryExclusive(1));
  CHECK(!lease.TryExclusive(2));
  CHECK(lease.TryExclusive(1));
  lease.Release(1);
  CHECK(lease.TryExclusive(2));
  CHECK_EQ(lease.holder(), 2);
}

TEST(EvaluationsShareAndKeepTrainingOut) {
  Lease lease;
  CHECK(lease.TryShare(1));
  CHECK(lease.TryShare(2));
  CHECK(!lease.TryExclusive(3));
  lease.Release(1);
  CHECK(!lease.TryExclusive(3));
  lease.Release(2);
  CHECK(lease.TryExclusive(3));
}

TEST(EvaluationWaitsForATrainingStepButNotForItsOwn) {
  Lease lease;
  CHECK(lease.TryExclusive(1));
  CHECK(!lease.TryShare(2));
  CHECK(lease.TryShare(1));
}

TEST(AStepThatWaitsToTrainHoldsNoShare) {
  Lease lease;
  CHECK(lease.TryShare(1));
  CHECK(lease.TryShare(2));
  CHECK(!lease.TryExclusive(1));
  CHECK(lease.TryExclusive(2));  // 1 has given up what it shared, or both would wait for ever
  lease.Release(2);
  CHECK(lease.TryExclusive(1));
}

TEST(AStepThatWaitsForAnEarlierBatchHoldsNoShare) {
  Lease lease;
  CHECK(lease.TryShare(2));
  CHECK(!lease.TryExclusive(1));  // the earlier batch's step
  lease.GiveUpShare(2);           // 2 waits for 1 to be trained, long before it asks for the lease
  CHECK(lease.TryExclusive(1));
}

TEST(ALoneReaderBecomesTheTrainer) {
  Lease lease;
  CHECK(lease.TryShare(1));
  CHECK(lease.TryExclusive(1));
}

TEST(NobodyNewReadsBeforeAStepThatWaitsToTrain) {
  Lease lease;
  CHECK(lease.TryShare(1));
  CHECK(!lease.TryExclusive(2));
  CHECK(!lease.TryShare(3));
  CHECK(lease.TryShare(1));  // a reader may go on reading
  lease.Release(2);          // the step that waited was cancelled
  CHECK(lease.TryShare(3));
}

TEST(ReleasingNothingIsAllowed) {
  Lease lease;
  lease.Release(1);
  CHECK(lease.TryExclusive(2));
  lease.Release(1);
  CHECK(!lease.TryExclusive(3));
}
