// State of a step, stored in TensorFlow's step container. TensorFlow destroys the state when the step ends or fails.
#ifndef ASCPIPE_BRIDGE_STEP_END_H_
#define ASCPIPE_BRIDGE_STEP_END_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bridge/pending_claim.h"
#include "bridge/pending_read.h"
#include "bridge/pipeline.h"
#include "bridge/ranks.h"
#include "bridge/step_rows.h"
#include "core/ticket.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ascpipe {

// Returns a new number for a step or hold that uses the lease.
Lease::Step NextStep();

// State of the step of one session run. The destructor closes the tickets that the step claimed, and then releases the
// lease. If the lease were released first, another step could claim a batch before the tickets are closed.
class StepEnd : public tensorflow::ResourceBase {
 public:
  explicit StepEnd(std::shared_ptr<Pipeline> pipeline);
  ~StepEnd() override;

  // Returns the StepEnd of the step that `ctx` runs in. The caller owns one reference.
  static tensorflow::Status Of(tensorflow::OpKernelContext* ctx, const std::shared_ptr<Pipeline>& pipeline,
                               StepEnd** step);

  Lease::Step id() const { return id_; }
  // Records a ticket that the step uses. Returns an error for a second ticket of the same table and stream.
  tensorflow::Status Uses(const Stream& stream, const Table& table, std::int64_t ticket);
  // A step must not both train and cut tables, because the order of the training and the cut would be undefined. Waits
  // must call MayTrain, MayCut, Trains and Cuts in Poll.
  bool MayTrain() const { return !cuts_; }
  bool MayCut() const { return !trains_; }
  void Trains() { trains_ = true; }
  void Cuts() { cuts_ = true; }
  // Records that the step has claimed or read a ticket. The ticket is closed at the end of the step.
  void Claimed(TicketHold hold);
  // Stores rows that an evaluation has copied from a table with rows on disk. Lookups that read `slots` use the copied
  // rows.
  void Reads(const std::int32_t* slots, std::shared_ptr<const StepRows> rows);
  std::shared_ptr<const StepRows> RowsOf(const std::int32_t* slots) const;  // null: there are none
  // Records that the step has claimed a ticket for the table. Handles of the table's rows are valid until the end of
  // the step.
  void BeginHandles(Table* table, std::int64_t ticket);

  // Records that the other ranks wait for the exchange that `header` identifies. Owes is called only in programs with
  // several ranks. The destructor of StepEnd notifies the other ranks if the step ends before the exchange.
  void Owes(const PeerHeader& header);
  void OwesNothing();
  // Adds a claim that PendingClaim::Commit makes final. Claims that are still pending at the end of the step are
  // reverted.
  void Pends(PendingClaim claim);
  void Commit();
  // Reverts the claims and releases the lease. ClaimAgain later claims the same plans again.
  void PutAside();
  // Adds a read that ReadAgain may repeat. Reads of checkpoint rows are not added, because these rows do not change.
  void Pends(PendingRead read);
  void HasRead();
  // Returns false for a training step, and for a step that uses batches of several streams. All reads of such a step
  // must see the same state, so they cannot be repeated.
  bool MayPutReadsAside() const;
  // Releases the step's share of the lease. ReadAgain later requests the same rows again.
  void PutReadsAside();
  const std::vector<PendingRead>& reads() const { return reads_; }  // valid when all tables are read
  const PendingRead* ReadOf(int table) const;                       // null: the step has not read the table
  void HasClaimedAgain(bool has);
  const Table* PendingTable(int number) const;               // null: the table is not claimed
  std::vector<PendingClaim>& pending() { return pending_; }  // valid when all claims are made

  std::string DebugString() const override { return "ascpipe step"; }

 private:
  const Lease::Step id_;
  const std::shared_ptr<Pipeline> pipeline_;
  bool trains_ = false;
  bool cuts_ = false;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, std::int64_t> tickets_;
  std::vector<TicketHold> claimed_;
  std::vector<Table*> handled_;
  std::vector<PendingClaim> pending_;
  std::vector<PendingRead> reads_;
  std::map<const std::int32_t*, std::shared_ptr<const StepRows>> rows_;
  bool aside_ = false;  // the claims are reverted
  bool owes_ = false;
  PeerHeader owed_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_END_H_
