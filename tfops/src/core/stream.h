// The trainer's side of one ring. A stream accepts batches without waiting, and fills frames when the ring has space.
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
#include "core/read_position.h"
#include "core/ring.h"
#include "core/ring_growth.h"
#include "core/segment.h"
#include "core/ticket.h"

namespace ascpipe {

// Ids of one feature.
struct FeatureIds {
  const void* data;  // int32[count] or int64[count], valid as long as the Batch exists
  bool is_int32;
  std::int64_t count;
  std::vector<std::int64_t> shape;  // rank at most kMaxSpecRank; unused if the ids are appended
  int table;                        // index of its table in the ring, or -1: the feature is left out
  // Number of occurrences of each id, at least 0. `weights` is int32[count] and valid as long as the Batch exists. If
  // `weights` is null, each id occurs once.
  const std::int32_t* weights = nullptr;
  bool is_appended = false;  // ids of no feature, whose rows the batch needs
};

// A submitted batch. The owner of the batch keeps the ids alive.
class Batch {
 public:
  virtual ~Batch() = default;
  // Appends ids whose rows the batch also needs. Appended ids do not count as occurrences.
  void Append(int table, std::vector<std::int64_t> ids);

  std::vector<FeatureIds> features;  // one per input of AscSubmit, then the appended ids
  std::int64_t timestamp = 0;        // 0: none
  std::int64_t source = 0;           // number of the iterator in this process
  ReadPosition read;                 // position of the dataset after the batch

 private:
  struct Appended {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> weights;
  };
  std::deque<Appended> appended_;  // a deque, because pointers to its elements must stay valid
};

class Stream {
 public:
  // `run` forms the upper bits of every ticket. `fd` is the descriptor of the ring's segment. The caller still owns
  // `fd`. If `fd` is -1, the ring never grows.
  Stream(std::int64_t run, int number, std::unique_ptr<Segment> segment, const RingView& ring,
         const SessionView& session, int fd = -1, std::shared_ptr<RingBudget> budget = nullptr);
  ~Stream();

  int number() const { return number_; }
  bool training() const { return ring_.opened().channel == layout::kTrain; }
  bool local() const { return ring_.opened().channel == layout::kLocal; }
  const RingView& ring() const { return ring_; }
  const TicketGate& gate() const { return *gate_; }
  int TableIndex(int table) const;  // -1: not in this stream

  // Accepts a batch and assigns the next ticket. The caller owns the first ticket hold and the first reference of the
  // ticket. Returns an error only if the stream was stopped. Submit never waits: if the ring has no space, Submit parks
  // the batch and rings the bell of the pump.
  CoreStatus Submit(std::unique_ptr<Batch> batch, Ticket** ticket);
  CoreStatus Park(std::unique_ptr<Batch> batch, Ticket** ticket);  // the first half of Submit

  // Sets the number of batches over which the optimizer accumulates the gradients of a table, starting with the next
  // batch. `table` is the index of the table in the ring.
  void Accumulate(int table, std::int64_t steps);
  // BeganAfter sets the number of batches that were trained before the next batch. BeganWith sets the keys of one table
  // that have unapplied gradient sums. Call BeganAfter and BeganWith after a restore, or after tables were emptied. No
  // step may train during these calls.
  void BeganAfter(std::int64_t batches);
  void BeganWith(int table, std::vector<std::int64_t> keys);
  // Sets the dataset position that follows the batches trained before a restore. Call BeganAt after BeganAfter.
  void BeganAt(const ReadPosition& position);
  // Returns the number of trained batches, including the batches before a restore.
  std::int64_t TrainedBatches() const;
  // Counts a batch as trained, if it was not counted before. Call CountTrained only after the batch was claimed.
  void CountTrained(const FrameRecord& record);
  // Returns the dataset position after the last trained batch, even if this batch was trained before a restore. The
  // position has no source if no batch was trained, or if the last trained batch has no position.
  ReadPosition TrainedPosition() const;
  // Returns true if a restore has changed the cycle of a batch that was submitted before the restore. Only cycles of
  // `steps` batches are considered.
  bool IsOfBefore(std::int64_t ticket, std::int64_t steps) const;

  // Acquires a ticket hold. Returns an error if the ticket is closed or belongs to another run.
  CoreStatus Hold(std::int64_t number, TicketHold* hold);

  // Executes one round of the pump, which frees frames, drops closed tickets and fills frames. Returns true if the
  // round did any work.
  bool Pump();
  // Returns the first ticket that waits for space in the ring, or 0 if no ticket waits.
  std::int64_t FirstParked() const;

  // Refuses new batches, closes every ticket, and waits until other threads have finished closing tickets. After Stop,
  // the caller may unmap the ring.
  void Stop();

 private:
  struct Parked {
    Ticket* ticket;
    std::unique_ptr<Batch> batch;
    std::unique_ptr<FrameRecord> record;  // without the frame's number and offset
  };

  // Sequence numbers of the first and the last open ticket. If no ticket is open, `first` is the next number and
  // `last` is 0.
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
  Arena arena_;         // guarded by pumping_, like the ring's head and tail
  RingGrowth growth_;   // guarded by pumping_

  mutable std::mutex mutex_;  // guards the members below
  bool stopped_ = false;
  std::int64_t sequence_ = 0;
  std::int64_t source_ = 0;  // source of the last batch
  CycleIds cycles_;
  std::int64_t trained_before_ = 0;  // argument of the last BeganAfter, minus `trained` of the ring at that time
  ReadPosition trained_position_;
  std::deque<Parked> parked_;
  std::unordered_map<std::int64_t, Ticket*> live_;  // one reference each, until closed
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_STREAM_H_
