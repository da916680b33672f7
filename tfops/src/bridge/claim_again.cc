#include "bridge/claim_again.h"

#include <utility>
#include <vector>

#include "bridge/status.h"
#include "core/claim.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

class ClaimAgainWait : public AsyncWait {
 public:
  ClaimAgainWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream)
      : AsyncWait(std::move(pipeline), step, ctx, std::move(ended)), stream_(stream) {}

  bool Poll(CoreStatus* status) override {
    waits_for = layout::kWaitStep;
    if (!pipeline().ranks()->peers().MayClaim(stream_)) return false;
    for (const PendingClaim& claim : step().pending()) {
      ClaimWords words;
      words.table = claim.table().name();
      words.device_rows = claim.table().sizes().device_rows;
      words.home_rows = claim.table().sizes().home_rows;
      const PartView& part = claim.part();
      ReadClaimWords(part.ring(), part.index(), claim.ticket(), &words);
      words.awaits_rows = claim.table().AwaitsRows(words.state);
      const ClaimVerdict verdict = DecideClaim(words);
      *status = verdict.error;
      waits_for = verdict.waits_for;
      ticket = claim.ticket().number();
      table_name = words.table;
      if (verdict.kind == ClaimVerdict::kError) return true;
      if (verdict.kind == ClaimVerdict::kReady) {
        if (PlanMoves::ImagesFit(part, &claim.table())) continue;
        waits_for = layout::kWaitSave;
        return false;
      }
      std::int64_t* const wanted = &part.ring().table(part.index())->wanted;
      if (verdict.wants && LoadAcquire(wanted) != ticket) {
        Exchange(wanted, ticket);
        pipeline().RingTableWorker(part.ring(), part.index());
      }
      return false;
    }
    waits_for = layout::kWaitLease;
    return pipeline().lease().TryExclusive(step().id());
  }

 protected:
  void Proceed() override {
    std::vector<PendingClaim>& claims = step().pending();
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i].TryAgain()) continue;
      while (i-- > 0) claims[i].TakeBackUnmoved();
      pipeline().lease().Release(step().id());
      Again();
      return;
    }
    Status status;
    for (const PendingClaim& claim : claims) status.Update(claim.CarryOutAgain(ctx()));
    // A claimed plan that fails leaves the table between two steps: the run is over.
    if (!status.ok()) pipeline().waiter().Fail(CoreStatus(static_cast<Code>(status.code()), status.error_message()));
    step().HasClaimedAgain(status.ok());
    End(status);
  }

 private:
  const int stream_;
};

}  // namespace

void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended,
                int stream) {
  std::make_shared<ClaimAgainWait>(std::move(pipeline), step, ctx, std::move(ended), stream)->Begin();
}

}  // namespace ascpipe
