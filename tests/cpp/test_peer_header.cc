// Headers of messages between ranks.  Written headers are read, and damaged headers are rejected.
#include <cstring>
#include <random>

#include "check.h"
#include "peers/header.h"

using namespace ascpipe;
using check::Has;

namespace {

using Bytes = std::vector<std::uint8_t>;

// Offsets of fields (docs/internals/protocol.md).
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kKindAt = 16, kStreamAt = 20, kSizesAt = 72, kExistsAt = 96;
constexpr std::size_t kCauseBytesAt = 100, kDoingAt = 116;
constexpr std::size_t kMostCause = 344;

PeerHeader Some() {
  PeerHeader header;
  header.kind = PeerKind::kForward;
  header.stream = 2;
  header.run = 3;
  header.ticket = 4;
  header.exists = false;
  header.tables = 5;
  header.facts = 11;
  header.doing = Doing::kAsked;
  header.work = 12;
  header.machine = 13;
  header.pid = 14;
  header.cause = "no memory";
  header.sequence = 6;
  header.changes = 7;
  header.change_hash = 0xfedcba9876543210u;
  header.signature = 9;
  return header;
}

// Returns a message with sections of these sizes.
Bytes Message(const PeerHeader& header, const SectionSizes& sizes) {
  Bytes bytes(static_cast<std::size_t>(kHeaderBytes + FilledUp(sizes.signature) + FilledUp(sizes.facts) +
                                       FilledUp(sizes.answer) + FilledUp(sizes.keys) + FilledUp(sizes.rows)));
  WriteHeader(header, sizes, bytes.data());
  return bytes;
}

template <typename T>
Bytes With(Bytes message, std::size_t at, T value) {
  std::memcpy(message.data() + at, &value, sizeof(value));
  return message;
}

CoreStatus Read(const Bytes& message, PeerHeader* header, SectionSizes* sizes) {
  return ReadHeader(message.data(), static_cast<std::int64_t>(message.size()), header, sizes);
}

bool IsRefused(const Bytes& message) {
  PeerHeader header;
  SectionSizes sizes;
  const CoreStatus status = Read(message, &header, &sizes);
  return !status.ok() && status.text().find("E301") == 0;
}

std::string CauseOf(const std::string& cause) {
  PeerHeader header = Some();
  header.cause = cause;
  SectionSizes sizes;
  CHECK(Read(Message(header, {}), &header, &sizes).ok());
  return header.cause;
}

}  // namespace

TEST(AHeaderIsReadAsItWasWritten) {
  const PeerHeader sent = Some();
  PeerHeader got;
  SectionSizes sizes;
  CHECK(Read(Message(sent, {1, 2, 3, 64, 65}), &got, &sizes).ok());
  CHECK(got.kind == sent.kind);
  CHECK_EQ(got.stream, 2);
  CHECK_EQ(got.run, 3);
  CHECK_EQ(got.ticket, 4);
  CHECK(!got.exists);
  CHECK_EQ(got.tables, 5u);
  CHECK_EQ(got.cause, "no memory");
  CHECK_EQ(got.sequence, 6);
  CHECK_EQ(got.changes, 7);
  CHECK_EQ(got.change_hash, 0xfedcba9876543210u);
  CHECK_EQ(got.signature, 9u);
  CHECK_EQ(got.facts, 11u);
  CHECK(got.doing == Doing::kAsked);
  CHECK_EQ(got.work, 12);
  CHECK_EQ(got.machine, 13u);
  CHECK_EQ(got.pid, 14);
  CHECK_EQ(sizes.signature, 1);
  CHECK_EQ(sizes.facts, 2);
  CHECK_EQ(sizes.keys, 64);
  CHECK_EQ(sizes.rows, 65);
}

TEST(EveryDamagedFieldOfAHeaderIsRefused) {
  const Bytes whole = Message(Some(), {1, 2, 3, 64, 65});
  CHECK(!IsRefused(whole));
  CHECK(IsRefused(With<std::uint32_t>(whole, kMagicAt, 0)));
  PeerHeader other;
  SectionSizes its;
  const CoreStatus older = Read(With<std::uint32_t>(whole, kVersionAt, 3), &other, &its);
  CHECK(Has(older.text(), "E313: its ascpipe sends messages of version 3"));
  for (const std::int32_t kind : {0, 10, -1}) CHECK(IsRefused(With(whole, kKindAt, kind)));
  for (const std::int32_t doing : {3, -1}) CHECK(IsRefused(With(whole, kDoingAt, doing)));
  CHECK(IsRefused(With<std::int32_t>(whole, kStreamAt, -1)));
  CHECK(IsRefused(With<std::uint32_t>(whole, kExistsAt, 2)));
  CHECK(IsRefused(With<std::uint32_t>(whole, kCauseBytesAt, kMostCause + 1)));
  for (std::size_t section = 0; section < 3; ++section) {
    const std::int64_t most = static_cast<std::int64_t>(whole.size()) - kHeaderBytes;
    for (const std::int64_t bytes : {std::int64_t{-1}, most, most + 1, INT64_MAX, INT64_MIN}) {
      CHECK(IsRefused(With(whole, kSizesAt + 8 * section, bytes)));
    }
  }
}

TEST(AMessageThatIsTooShortIsRefused) {
  const Bytes whole = Message(Some(), {1, 2, 3, 64, 65});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CHECK(IsRefused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))));
  }
}

TEST(RandomBytesNeverNameSectionsOutsideOfTheirMessage) {
  std::mt19937_64 numbers(5);
  const Bytes whole = Message(Some(), {100, 200, 1000, 10000});
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes message(whole.begin(), whole.end());
    const std::size_t flips = 1 + numbers() % 3;
    for (std::size_t flip = 0; flip < flips; ++flip) {
      message[numbers() % static_cast<std::size_t>(kHeaderBytes)] = static_cast<std::uint8_t>(numbers());
    }
    if (round % 10 == 0) message.resize(numbers() % message.size());
    PeerHeader header;
    SectionSizes sizes;
    if (!Read(message, &header, &sizes).ok()) continue;
    ++read;
    CHECK(sizes.signature >= 0 && sizes.answer >= 0 && sizes.keys >= 0 && sizes.rows >= 0);
    CHECK(kHeaderBytes + FilledUp(sizes.signature) + FilledUp(sizes.answer) + FilledUp(sizes.keys) +
              FilledUp(sizes.rows) <=
          static_cast<std::int64_t>(message.size()));
    CHECK(header.cause.size() <= kMostCause);
  }
  CHECK(read > 0);
}

TEST(ALongCauseIsCutBetweenTwoCharacters) {
  const std::string head(kMostCause - 2, 'a');
  CHECK_EQ(CauseOf(head), head);
  CHECK_EQ(CauseOf(head + "bc"), head + "bc");
  CHECK_EQ(CauseOf(head + "bcd"), head + "bc");
  CHECK_EQ(CauseOf(head + "\xc3\xa9" + "d"), head + "\xc3\xa9");  // a complete character of two bytes
  CHECK_EQ(CauseOf(head + "b\xc3\xa9"), head + "b");
  CHECK_EQ(CauseOf(head + "\xe2\x82\xac"), head);      // a character of three bytes
  CHECK_EQ(CauseOf(head + "\xf0\x9f\x98\x80"), head);  // a character of four bytes
}

TEST(ACauseThatIsNoTextIsACauseNevertheless) { CHECK_EQ(CauseOf(std::string(2 * kMostCause, '\x80')).empty(), false); }
