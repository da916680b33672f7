// Stream whose batches are trained by several ranks. The stream contains the keys that each rank requests from each
// owner.
//
// A ranked stream has two rings. The local ring contains this rank's batches. The distinct keys of a local batch are
// ordered by owner and sent to the owners before training. The owned ring contains, for each batch, the keys that all
// ranks request from this rank. The owned ring is planned and trained like the ring of a single rank.
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

// Name of a batch. All ranks use the same name for the batch. The name consists of the number of the iterator in its
// stream and the number of the batch in the iterator.
struct BatchName {
  std::int64_t run = 0;
  std::int64_t index = 0;

  bool operator<(const BatchName& other) const { return std::tie(run, index) < std::tie(other.run, other.index); }
  bool operator==(const BatchName& other) const { return run == other.run && index == other.index; }
};

// Boundaries of the rows of one table in one batch. Each array has ranks + 1 elements and starts with 0.
struct RowShares {
  std::vector<std::int64_t> owners;  // local ring: distinct keys of this rank, by owner
  std::vector<std::int64_t> askers;  // owned ring: keys requested from this rank, by requesting rank
};

// A batch for which all ranks have sent their keys, with the data for its step.
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

  // Returns the number of a new iterator over the stream. Numbers start at 1.
  std::int64_t NewRun();
  // Names a batch and submits it to the local ring, like Stream::Submit.
  CoreStatus Submit(std::int64_t run, std::unique_ptr<Batch> batch, Ticket** ticket);
  // Returns the name of the next batch of the newest run.
  BatchName NameOfNext() const;
  // Reads the name of a batch. Returns false if the batch no longer has a name.
  bool NameOf(std::int64_t local, BatchName* name) const;

  // Returns true if the keys of a batch and of all batches before it are deduplicated. Also returns true if the keys
  // can no longer be deduplicated, so that Take returns the error.
  bool IsReady(std::int64_t local) const;
  // Returns true if every rank has sent its keys for a batch.
  bool IsKnown(const BatchName& name) const;
  // Returns a batch whose keys are known, and transfers the hold on its owned ticket to *owned. Call Take only once for
  // each batch.
  CoreStatus Take(std::int64_t local, std::shared_ptr<const RankedBatch>* batch, TicketHold* owned);
  // Closes the owned tickets of batches that this rank has dropped, because later tickets wait until the owned tickets
  // are closed.
  void DropClosed();
  // Returns the batch of an owned ticket. Returns null if Take has not returned the batch yet.
  std::shared_ptr<const RankedBatch> Taken(std::int64_t owned) const;

  // Appends the keys of unsent batches by owner, with the oldest batch first. Includes all batches up to `until`, and
  // at most a few more batches.
  void Pack(const BatchName& until, std::vector<std::vector<Piece>>* to,
            std::vector<std::shared_ptr<const void>>* keeps);
  // Stores the keys that a rank requests. `data` starts after the head.
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
  std::vector<std::int64_t> newest_;  // by rank: largest run received
  std::map<std::int64_t, std::pair<std::shared_ptr<const RankedBatch>, Ticket*>> taken_;  // by ticket in the owned ring
};

// Streams of a process whose batches are trained by several ranks. Peers sends the keys of ranked streams with its
// messages.
class RankedStreams : public PeerKeys {
 public:
  // Adds a stream. Passes keys that arrived earlier to the stream. Returns an error if keys that arrived earlier are
  // invalid.
  CoreStatus Add(std::unique_ptr<RankedStream> stream);
  RankedStream* Find(int number) const;  // null: there is none

  void Pack(const PeerHeader& header, std::vector<std::vector<Piece>>* to, std::shared_ptr<const void>* keeps) override;
  CoreStatus Unpack(const Received& keys) override;
  bool IsKnown(const PeerHeader& gate) const override;

 private:
  // Keys of one batch that arrived before the stream of the batch was added.
  struct Early {
    int from;
    std::vector<std::uint8_t> bytes;
  };

  RankedStream* Known(std::int64_t number) const;
  static CoreStatus Unpack(RankedStream* stream, int from, const std::uint8_t* data);

  mutable std::mutex mutex_;  // guards the members below
  std::map<std::int64_t, std::unique_ptr<RankedStream>> streams_;
  // Keys that arrived before their stream was added. The map key is the number of the stream. The memory is limited,
  // because all batches that a rank has sent fit into its local ring.
  std::map<std::int64_t, std::vector<Early>> early_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_RANKED_STREAM_H_
