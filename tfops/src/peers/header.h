// Header of a message. The header has a fixed size and describes the action of a rank in one exchange.
#ifndef ASCPIPE_PEERS_HEADER_H_
#define ASCPIPE_PEERS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/core_status.h"

namespace ascpipe {

// The action that a rank announces. docs/internals/adr/0037 explains the set of actions.
enum class PeerKind : std::int32_t {
  kGate = 1,  // can start a step with a batch, but keys of some ranks are missing
  kForward,   // has claimed a batch and sends rows; its tables are unchanged
  kBackward,  // sends the gradients of a batch
  kRead,      // sends rows for the evaluation of a batch
  kAsk,       // rank 0, between two steps, requests a save, a restore or a change of tables from all ranks
  kIdle,      // not rank 0: has nothing to do and can receive requests of rank 0
  kLeave,     // shuts down
  kBroken,    // has abandoned an exchange and takes part in no other exchange
  kBusy,      // alive, nothing to exchange, cannot receive requests; `doing` is the reason
};
const char* NameOf(PeerKind kind);

// Phase of a request of rank 0.
enum class AskPhase : std::int32_t {
  kSave,     // each rank executes the request between two steps and sends only kBusy until it has finished
  kChange,   // like kSave, but tables change: evaluations that have read the tables fail
  kCollect,  // each rank sends its answers
  kEnd,      // like kCollect; the text contains the result
};

// Reason why a rank sends kBusy.
enum class Doing : std::int32_t {
  kOther,     // the program does something else
  kAsked,     // executes a request of rank 0
  kComputes,  // computes a step whose gradients are sent next
};
const char* NameOf(Doing doing);

struct PeerHeader {
  PeerKind kind = PeerKind::kGate;
  int stream = 0;                    // stream of the batch
  std::int64_t run = 0;              // number of the iterator
  std::int64_t ticket = 0;           // number of the batch in its iterator; kAsk: number of the request
  bool exists = true;                // kGate: false if this rank's data ends before the batch
  AskPhase phase = AskPhase::kSave;  // kAsk
  std::uint64_t tables = 0;          // hash of the tables that the step uses
  std::uint64_t facts = 0;           // kForward, kRead: hash of the facts that all ranks must share
  std::string cause;                 // why this rank's step fails; empty: it does not fail
  // Peers sets the members below.
  std::int64_t sequence = 0;    // number of the exchange
  std::int64_t busy_us = 0;     // time since the previous exchange of this rank
  Doing doing = Doing::kOther;  // kBusy
  std::int64_t work = 0;        // grows while this rank works on a request of rank 0
  std::uint64_t machine = 0;    // equal for ranks that see each other's processes
  std::int32_t pid = 0;
  std::int64_t changes = 0;       // number of changes of this rank's tables
  std::uint64_t change_hash = 0;  // hash of all changes
  std::uint64_t signature = 0;    // hash of the signature that all ranks must share

  // Returns true for a heartbeat, which a rank sends if it has nothing to exchange.
  bool is_pulse() const { return kind == PeerKind::kIdle || kind == PeerKind::kBusy; }
  bool has_batch() const {
    return kind == PeerKind::kGate || kind == PeerKind::kForward || kind == PeerKind::kBackward ||
           kind == PeerKind::kRead;
  }
};

// Sizes of the sections after a header, in bytes without padding. Each section is padded to a multiple of kSectionUnit.
struct SectionSizes {
  std::int64_t signature = 0;
  std::int64_t facts = 0;
  std::int64_t answer = 0;
  std::int64_t keys = 0;
  std::int64_t rows = 0;
};

constexpr std::int64_t kSectionUnit = 64;  // a cache line
constexpr std::int64_t kHeaderBytes = 512;

inline std::int64_t FilledUp(std::int64_t bytes) { return (bytes + kSectionUnit - 1) / kSectionUnit * kSectionUnit; }

void WriteHeader(const PeerHeader& header, const SectionSizes& sizes, std::uint8_t* out);  // writes kHeaderBytes
// Parses and checks the header of a message of `bytes` bytes. Returns an error if a section extends beyond the message.
CoreStatus ReadHeader(const std::uint8_t* message, std::int64_t bytes, PeerHeader* header, SectionSizes* sizes);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_HEADER_H_
