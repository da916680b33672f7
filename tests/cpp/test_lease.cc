// Steps that may hold the lease at the same time.
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
  CHECK(lease.TryExclusive(2));  // step 1 has released its share; otherwise both steps would wait forever
  lease.Release(2);
  CHECK(lease.TryExclusive(1));
}

TEST(AStepThatWaitsForAnEarlierBatchHoldsNoShare) {
  Lease lease;
  CHECK(lease.TryShare(2));
  CHECK(!lease.TryExclusive(1));  // the step of the earlier batch
  lease.GiveUpShare(2);           // step 2 waits until step 1 has trained, long before step 2 requests the lease
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
  CHECK(lease.TryShare(1));  // a reader may continue to read
  lease.Release(2);          // the waiting step was cancelled
  CHECK(lease.TryShare(3));
}

TEST(ReleasingNothingIsAllowed) {
  Lease lease;
  lease.Release(1);
  CHECK(lease.TryExclusive(2));
  lease.Release(1);
  CHECK(!lease.TryExclusive(3));
}
