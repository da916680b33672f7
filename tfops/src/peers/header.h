// What a rank says in one exchange, and how it is written: a header of fixed size before each message.
#ifndef ASCPIPE_PEERS_HEADER_H_
#define ASCPIPE_PEERS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/core_status.h"

namespace ascpipe {

// What a rank is about to do; docs/adr/0037 says why these.
enum class PeerKind : std::int32_t {
  kGate = 1,  // it would begin a step with a batch, and does not have the keys of all ranks yet
  kForward,   // it has claimed a batch and sends rows; nothing has changed in its tables
  kBackward,  // it sends the gradients of a batch
  kRead,      // it sends rows for an evaluation of a batch
  kAsk,       // rank 0 asks all ranks for a save, a restore or a change of tables; it is between two steps
  kIdle,      // it does nothing for now, and is not rank 0: so it hears what rank 0 asks for
  kLeave,     // it closes
  kBroken,    // it has given up an exchange, and exchanges nothing any more
  kBusy,      // it lives and has nothing to exchange, and is not asked: `doing` says why
};
const char* NameOf(PeerKind kind);

// What an ASK of rank 0 means to the other ranks.
enum class AskPhase : std::int32_t {
  kSave,     // each does what the text says, between two steps, and says nothing else until it has
  kChange,   // the same, and tables change: evaluations that have read them fail
  kCollect,  // each says what it has answered
  kEnd,      // the same, and the text says how it ended
};

// Why a rank is kBusy.
enum class Doing : std::int32_t {
  kOther,     // its program does something else
  kAsked,     // it does what rank 0 asked for
  kComputes,  // it computes a step, whose gradients come next
};
const char* NameOf(Doing doing);

struct PeerHeader {
  PeerKind kind = PeerKind::kGate;
  int stream = 0;                    // of a batch; so are the next two
  std::int64_t run = 0;              // number of the iterator
  std::int64_t ticket = 0;           // number of the batch in it; kAsk: of the question
  bool exists = true;                // kGate: false if the rank's data ends before the batch
  AskPhase phase = AskPhase::kSave;  // kAsk
  std::uint64_t tables = 0;          // a number for the tables that the step uses
  std::uint64_t facts = 0;           // kForward, kRead: hash of what the step of each rank must have alike
  std::string cause;                 // why the rank's step fails; empty if it does not
  // Peers fills these.
  std::int64_t sequence = 0;    // number of the exchange
  std::int64_t busy_us = 0;     // how long the rank exchanged nothing before
  Doing doing = Doing::kOther;  // kBusy
  std::int64_t work = 0;        // grows while the rank does what rank 0 asked for
  std::uint64_t machine = 0;    // the same for ranks that see each other's processes
  std::int32_t pid = 0;
  std::int64_t changes = 0;       // how many changes the rank's tables have seen
  std::uint64_t change_hash = 0;  // of them all
  std::uint64_t signature = 0;    // hash of what all ranks must have in common

  // Whether the rank has nothing to exchange, and says so for others to hear that it lives.
  bool is_pulse() const { return kind == PeerKind::kIdle || kind == PeerKind::kBusy; }
  bool has_batch() const {
    return kind == PeerKind::kGate || kind == PeerKind::kForward || kind == PeerKind::kBackward ||
           kind == PeerKind::kRead;
  }
};

// Bytes of the sections behind a header, each filled up to kSectionUnit.
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

void WriteHeader(const PeerHeader& header, const SectionSizes& sizes, std::uint8_t* out);  // kHeaderBytes
// Reads the header of a message of `bytes` bytes; the sections that it names lie within.
CoreStatus ReadHeader(const std::uint8_t* message, std::int64_t bytes, PeerHeader* header, SectionSizes* sizes);

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_HEADER_H_
