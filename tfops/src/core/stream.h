// The trainer's end of one ring: accepts batches without waiting, and puts them into frames as room appears.
#ifndef ASCPIPE_CORE_STREAM_H_
#define ASCPIPE_CORE_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/core_status.h"
#include "core/cycle_ids.h"
#include "core/frame_record.h"
#include "core/ring.h"
#include "core/ring_growth.h"
#include "core/segment.h"
#include "core/ticket.h"

namespace ascpipe {

// Ids of one feature.
struct FeatureIds {
  const void* data;  // int32 or int64, `count` of them, as long as the Batch lives
  bool is_int32;
  std::int64_t count;
  std::vector<std::int64_t> shape;  // at most kMaxSpecRank; means nothing if the ids are appended
  int table;                        // index of its table in the ring, or -1: the feature is left out
  // How often each id counts, `count` of them, 0 or more each, as long as the Batch lives; null: once each.
  const std::int32_t* weights = nullptr;
  bool is_appended = false;  // ids of no feature, whose rows the batch needs
};

// A submitted batch; its owner keeps the ids alive with it.
class Batch {
 public:
  virtual ~Batch() = default;
  // Lets the batch need the rows of further ids of a table, which do not count.
  void Append(int table, std::vector<std::int64_t> ids);

  std::vector<FeatureIds> features;  // one per input of AscSubmit, then what was appended
  std::int64_t timestamp = 0;        // 0: it has none
  std::int64_t source = 0;           // which iterator it is of, among all of the process

 private:
  struct Appended {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> weights;
  };
  std::deque<Appended> appended_;  // whose elements stay where they are
};

class Stream {
 public:
  // `run`: upper bits of every ticket.  `fd`: of the ring's segment, stays the caller's; -1: the ring never grows.
  Stream(std::int64_t run, int number, std::unique_ptr<Segment> segment, const RingView& ring,
         const SessionView& session, int fd = -1, std::shared_ptr<RingBudget> budget = nullptr);
  ~Stream();

  int number() const { return number_; }
  bool training() const { return ring_.opened().channel == layout::kTrain; }
  bool local() const { return ring_.opened().channel == layout::kLocal; }
  const RingView& ring() const { return ring_; }
  const TicketGate& gate() const { return *gate_; }
  int TableIndex(int table) const;  // -1: not in this stream

  // Takes the batch and gives it the next ticket.  The caller has the ticket's first hold and reference.
  // Fails only if the stream was stopped.  Never waits for room: without any, the batch is parked, and the pump is
  // rung.
  CoreStatus Submit(std::unique_ptr<Batch> batch, Ticket** ticket);
  CoreStatus Park(std::unique_ptr<Batch> batch, Ticket** ticket);  // the first half of it

  // From the next batch on, gradients of a table are accumulated over `steps` batches.  `table`: index in the ring.
  void Accumulate(int table, std::int64_t steps);
  // Of a checkpoint that was restored, or of empty tables, while no step trains: how many batches were trained before
  // the next one is, and the keys of a table with sums that were not applied yet.
  void BeganAfter(std::int64_t batches);
  void BeganWith(int table, std::vector<std::int64_t> keys);
  // Batches that were trained since.
  std::int64_t TrainedBatches() const;
  // Whether a batch was submitted before tables began so, which changes its cycle of `steps` batches.
  bool IsOfBefore(std::int64_t ticket, std::int64_t steps) const;

  // A hold on an open ticket, or an error that says why there is none.
  CoreStatus Hold(std::int64_t number, TicketHold* hold);

  // One round of the pump: gives frames back, drops closed tickets, fills frames.  True if anything was done.
  bool Pump();
  // Tickets that wait for room, and the first of them (0: none).
  std::int64_t FirstParked() const;

  // Refuses further batches, closes every ticket and waits for closes under way; the ring may be unmapped then.
  void Stop();

 private:
  struct Parked {
    Ticket* ticket;
    std::unique_ptr<Batch> batch;
    std::unique_ptr<FrameRecord> record;  // all but the frame's number and place
  };

  // Sequence numbers of the first and the last ticket that are not closed; of none: behind all, and 0.
  struct Open {
    std::int64_t first, last;
  };

  Open OpenBatches() const;
  bool PumpAlone();
  bool GiveBack();
  bool Collect();
  bool FillOne(Parked* next);
  std::unique_ptr<FrameRecord> LayOut(const Batch& batch) const;
  void Fill(const Batch& batch, const FrameRecord& record) const;
  void FillPart(const Batch& batch, int index, std::uint8_t* base, const layout::Part& part) const;
  void FillWeights(const Batch& batch, int index, std::int32_t* out) const;
  bool MayKeyWorkersPause() const;

  const std::int64_t run_;
  const int number_;
  const std::unique_ptr<Segment> segment_;
  const RingView ring_;
  const SessionView session_;
  const std::shared_ptr<TicketGate> gate_;

  std::mutex pumping_;  // before mutex_
  Arena arena_;         // guarded by pumping_, as the ring's head and tail
  RingGrowth growth_;   // guarded by pumping_

  mutable std::mutex mutex_;  // guards the members below
  bool stopped_ = false;
  std::int64_t sequence_ = 0;
  std::int64_t source_ = 0;  // of the last batch
  CycleIds cycles_;
  std::int64_t trained_before_ = 0;  // less what this ring had trained then
  std::deque<Parked> parked_;
  std::unordered_map<std::int64_t, Ticket*> live_;  // one reference each, until closed
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_STREAM_H_
