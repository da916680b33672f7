// The batches of one stream among several ranks: what each rank asks of each owner of keys.
//
// A stream of several ranks has two rings.  The local one has this rank's batches: their distinct keys, ordered by
// owner, travel to their owners ahead of training.  The owned one has, for each batch, the keys that all ranks ask of
// this one: it is planned and trained as the ring of a single rank.
#ifndef ASCPIPE_PEERS_RANKED_STREAM_H_
#define ASCPIPE_PEERS_RANKED_STREAM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/core_status.h"
#include "core/stream.h"
#include "core/ticket.h"
#include "peers/asked_keys.h"
#include "peers/peers.h"

namespace ascpipe {

// A batch, by the same name on all ranks: the iterator's number among those of its stream, and its number in that.
struct BatchName {
  std::int64_t run = 0;
  std::int64_t index = 0;

  bool operator<(const BatchName& other) const { return std::tie(run, index) < std::tie(other.run, other.index); }
  bool operator==(const BatchName& other) const { return run == other.run && index == other.index; }
};

// How the rows of one table are dealt in one batch; [ranks + 1] each, from 0 on.
struct RowShares {
  std::vector<std::int64_t> owners;  // of this rank's distinct keys, those of each owner: in the local ring
  std::vector<std::int64_t> askers;  // of the keys asked of this rank, those of each rank: in the owned ring
};

// A batch whose keys all ranks have, as its step needs it.
struct RankedBatch {
  BatchName name;
  std::int64_t local = 0;         // ticket in the local ring
  std::int64_t owned = 0;         // ticket in the owned ring
  std::vector<RowShares> shares;  // by table of the ring
};

class RankedStream {
 public:
  RankedStream(int number, Stream* local, Stream* owned, int rank, int ranks);
  ~RankedStream();

  int number() const { return number_; }
  Stream* local() const { return local_; }
  Stream* owned() const { return owned_; }

  // The number of a further iterator over the stream, from 1 on.
  std::int64_t NewRun();
  // Takes a batch and names it; as Stream::Submit of the local ring.
  CoreStatus Submit(std::int64_t run, std::unique_ptr<Batch> batch, Ticket** ticket);
  // The name that a batch behind the last one of the newest run would have.
  BatchName NameOfNext() const;
  // The name of a batch; false: it has none any more.
  bool NameOf(std::int64_t local, BatchName* name) const;

  // Whether the keys of a batch, and of those before it, are deduplicated, or it can no longer be (then a look at all
  // of it shows why).
  bool IsReady(std::int64_t local) const;
  // Whether every rank has said what it asks for in a batch.
  bool IsKnown(const BatchName& name) const;
  // A batch that is known, and the hold of its ticket in the owned ring; it can be taken once.
  CoreStatus Take(std::int64_t local, std::shared_ptr<const RankedBatch>* batch, TicketHold* owned);
  // Closes the owned tickets of batches that this rank has dropped: later ones wait for them.
  void DropClosed();
  // One that was taken, by its ticket in the owned ring; null: there is none.
  std::shared_ptr<const RankedBatch> Taken(std::int64_t owned) const;

  // Appends what this rank asks of each owner in batches that were not sent yet, oldest first: some of them, and all up
  // to `until`.
  void Pack(const BatchName& until, std::vector<std::vector<Piece>>* to,
            std::vector<std::shared_ptr<const void>>* keeps);
  // Takes what a rank asks for; `data` begins behind the head.
  CoreStatus Unpack(int from, const AskedHead& head, const std::uint8_t* data, std::int64_t bytes);

 private:
  struct Entry;

  bool IsDeduplicated(std::int64_t frame) const;
  CoreStatus Deal(Entry* entry, std::vector<FrameKeys>* keys) const;
  void Complete(const BatchName& name, Entry* entry);
  void Clear();

  const int number_;
  Stream* const local_;
  Stream* const owned_;
  const int rank_, ranks_;
  mutable std::mutex mutex_;  // guards the members below
  std::int64_t runs_ = 0;
  std::map<std::int64_t, std::int64_t> submitted_;  // by run
  std::map<BatchName, std::unique_ptr<Entry>> entries_;
  std::map<std::int64_t, BatchName> names_;  // by ticket in the local ring
  std::deque<BatchName> unsent_;
  std::vector<std::int64_t> newest_;  // by rank: the greatest run of what it has sent
  std::map<std::int64_t, std::pair<std::shared_ptr<const RankedBatch>, Ticket*>> taken_;  // by ticket in the owned ring
};

// The streams of a process among several ranks: their keys ride on the messages of Peers.
class RankedStreams : public PeerKeys {
 public:
  // It gets the keys of its batches that ranks which had it earlier have sent; what may be wrong with them.
  CoreStatus Add(std::unique_ptr<RankedStream> stream);
  RankedStream* Find(int number) const;  // null: there is none

  void Pack(const PeerHeader& header, std::vector<std::vector<Piece>>* to, std::shared_ptr<const void>* keeps) override;
  CoreStatus Unpack(const Received& keys) override;
  bool IsKnown(const PeerHeader& gate) const override;

 private:
  // What a rank has said of one batch.
  struct Early {
    int from;
    std::vector<std::uint8_t> bytes;
  };

  RankedStream* Known(std::int64_t number) const;
  static CoreStatus Unpack(RankedStream* stream, int from, const std::uint8_t* data);

  mutable std::mutex mutex_;  // guards the members below
  std::map<std::int64_t, std::unique_ptr<RankedStream>> streams_;
  // By the number of a stream that is not here yet.  A rank sends no more of one than its own ring holds.
  std::map<std::int64_t, std::vector<Early>> early_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_RANKED_STREAM_H_
