#include "peers/header.h"

#include <algorithm>
#include <cstring>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr std::uint32_t kMagic = 0x52435341;  // "ASCR" in little-endian order
constexpr std::uint32_t kVersion = 5;
constexpr std::size_t kCauseBytes = 344;

// Wire format, little-endian.
struct Wire {
  std::uint32_t magic;
  std::uint32_t version;
  std::int64_t sequence;
  std::int32_t kind;
  std::int32_t stream;
  std::int64_t run;
  std::int64_t ticket;
  std::uint64_t tables;
  std::int64_t changes;
  std::uint64_t change_hash;
  std::uint64_t signature;
  std::int64_t signature_bytes;
  std::int64_t keys_bytes;
  std::int64_t rows_bytes;
  std::uint32_t exists;
  std::uint32_t cause_bytes;
  std::int64_t answer_bytes;
  std::int32_t phase;
  std::int32_t doing;
  std::int64_t busy_us;
  std::int64_t work;
  std::uint64_t machine;
  std::int32_t pid;
  std::uint32_t reserved;
  std::uint64_t facts;
  std::int64_t facts_bytes;
  char cause[kCauseBytes];
};
static_assert(sizeof(Wire) == kHeaderBytes, "a header has no gaps");
static_assert(offsetof(Wire, signature_bytes) == 72 && offsetof(Wire, cause) == 168, "the header is as documented");

// Returns true if `byte` is a continuation byte of UTF-8.
bool GoesOn(char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80u; }

}  // namespace

const char* NameOf(PeerKind kind) {
  switch (kind) {
    case PeerKind::kGate:
      return "takes";
    case PeerKind::kForward:
      return "trains";
    case PeerKind::kBackward:
      return "sends gradients of";
    case PeerKind::kRead:
      return "evaluates";
    case PeerKind::kAsk:
      return "saves, restores or changes its tables";
    case PeerKind::kIdle:
      return "is idle";
    case PeerKind::kLeave:
      return "has ended";
    case PeerKind::kBroken:
      return "has given up";
    case PeerKind::kBusy:
      return "is busy";
  }
  return "says what is not known";
}

const char* NameOf(Doing doing) {
  switch (doing) {
    case Doing::kOther:
      return "exchanges nothing: its program does something else";
    case Doing::kAsked:
      return "does its part of a save, restore or change of tables";
    case Doing::kComputes:
      return "computes a step";
  }
  return "does what is not known";
}

void WriteHeader(const PeerHeader& header, const SectionSizes& sizes, std::uint8_t* out) {
  Wire wire;
  std::memset(&wire, 0, sizeof(wire));
  wire.magic = kMagic;
  wire.version = kVersion;
  wire.sequence = header.sequence;
  wire.kind = static_cast<std::int32_t>(header.kind);
  wire.stream = header.stream;
  wire.run = header.run;
  wire.ticket = header.ticket;
  wire.tables = header.tables;
  wire.facts = header.facts;
  wire.facts_bytes = sizes.facts;
  wire.changes = header.changes;
  wire.change_hash = header.change_hash;
  wire.signature = header.signature;
  wire.signature_bytes = sizes.signature;
  wire.keys_bytes = sizes.keys;
  wire.rows_bytes = sizes.rows;
  wire.answer_bytes = sizes.answer;
  wire.phase = static_cast<std::int32_t>(header.phase);
  wire.busy_us = header.busy_us;
  wire.doing = static_cast<std::int32_t>(header.doing);
  wire.work = header.work;
  wire.machine = header.machine;
  wire.pid = header.pid;
  wire.exists = header.exists ? 1 : 0;
  std::size_t cause = std::min(header.cause.size(), kCauseBytes);
  // The text must not be cut within a UTF-8 character, so up to three bytes of an incomplete character are removed. The
  // limit of three bytes also applies if the text is not valid UTF-8. Without the limit, a text that consists of
  // continuation bytes would become empty, and an empty cause means that there is no error.
  for (int step = 0; step < 3 && cause < header.cause.size() && GoesOn(header.cause[cause]); ++step) --cause;
  wire.cause_bytes = static_cast<std::uint32_t>(cause);
  if (cause > 0) std::memcpy(wire.cause, header.cause.data(), cause);
  std::memcpy(out, &wire, sizeof(wire));
}

CoreStatus ReadHeader(const std::uint8_t* message, std::int64_t bytes, PeerHeader* header, SectionSizes* sizes) {
  Wire wire;
  if (bytes < kHeaderBytes) return Error(kE301, "a message of ", bytes, " bytes has no room for its header");
  std::memcpy(&wire, message, sizeof(wire));
  if (wire.magic != kMagic) return Error(kE301, "a message begins with ", wire.magic, " in place of ", kMagic);
  if (wire.version != kVersion) {
    return Error(kE313, "its ascpipe sends messages of version ", wire.version, ", and that of this rank of version ",
                 kVersion, ". All ranks need the same ascpipe. Nothing was trained");
  }
  const std::int64_t most = bytes - kHeaderBytes;
  std::int64_t all = 0;
  for (const std::int64_t section :
       {wire.signature_bytes, wire.facts_bytes, wire.answer_bytes, wire.keys_bytes, wire.rows_bytes}) {
    if (section < 0 || section > most) return Error(kE301, "a section of ", section, " bytes in a message of ", bytes);
    all += FilledUp(section);
  }
  if (all > most) {
    return Error(kE301, "sections of ", wire.signature_bytes, ", ", wire.facts_bytes, ", ", wire.answer_bytes, ", ",
                 wire.keys_bytes, " and ", wire.rows_bytes, " bytes in a message of ", bytes);
  }
  if (wire.kind < static_cast<std::int32_t>(PeerKind::kGate) ||
      wire.kind > static_cast<std::int32_t>(PeerKind::kBusy) || wire.stream < 0 || wire.exists > 1 ||
      wire.cause_bytes > kCauseBytes || wire.phase < 0 || wire.phase > static_cast<std::int32_t>(AskPhase::kEnd) ||
      wire.doing < 0 || wire.doing > static_cast<std::int32_t>(Doing::kComputes)) {
    return Error(kE301, "a header of kind ", wire.kind, " and stream ", wire.stream, " with a cause of ",
                 wire.cause_bytes, " bytes");
  }
  header->kind = static_cast<PeerKind>(wire.kind);
  header->stream = wire.stream;
  header->run = wire.run;
  header->ticket = wire.ticket;
  header->exists = wire.exists != 0;
  header->tables = wire.tables;
  header->facts = wire.facts;
  header->cause.assign(wire.cause, wire.cause_bytes);
  header->sequence = wire.sequence;
  header->changes = wire.changes;
  header->change_hash = wire.change_hash;
  header->signature = wire.signature;
  header->phase = static_cast<AskPhase>(wire.phase);
  header->busy_us = wire.busy_us;
  header->doing = static_cast<Doing>(wire.doing);
  header->work = wire.work;
  header->machine = wire.machine;
  header->pid = wire.pid;
  *sizes = {wire.signature_bytes, wire.facts_bytes, wire.answer_bytes, wire.keys_bytes, wire.rows_bytes};
  return CoreStatus();
}

}  // namespace ascpipe
