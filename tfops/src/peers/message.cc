#include "peers/message.h"

#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

std::uint8_t* Put(const std::vector<Piece>& pieces, std::uint8_t* out) {
  const std::uint8_t* const begin = out;
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(out, piece.data, static_cast<std::size_t>(piece.bytes));
    out += piece.bytes;
  }
  return out + (FilledUp(out - begin) - (out - begin));
}

Piece PieceOf(const std::string& text) { return {text.data(), static_cast<std::int64_t>(text.size())}; }

}  // namespace

std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

std::int64_t BytesOf(const std::vector<Piece>& pieces) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

Parcel MakeMessages(const PeerHeader& header, const Sections& sections,
                    std::shared_ptr<std::vector<std::uint8_t>>* buffer) {
  const std::size_t ranks = sections.keys.size();
  const std::vector<Piece> signature = {PieceOf(sections.signature)}, facts = {PieceOf(sections.facts)},
                           answer = {PieceOf(sections.answer)};
  Parcel parcel;
  std::int64_t all = 0;
  std::vector<SectionSizes> sizes(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sizes[rank] = {BytesOf(signature), BytesOf(facts), BytesOf(answer), BytesOf(sections.keys[rank]),
                   BytesOf(sections.rows[rank])};
    parcel.sizes.push_back(kHeaderBytes + FilledUp(sizes[rank].signature) + FilledUp(sizes[rank].facts) +
                           FilledUp(sizes[rank].answer) + FilledUp(sizes[rank].keys) + FilledUp(sizes[rank].rows));
    all += parcel.sizes.back();
  }
  // Reuse the memory of the previous exchange if the transport has released it. Allocating new pages would take longer
  // than copying the data.
  if (*buffer == nullptr || buffer->use_count() > 1) *buffer = std::make_shared<std::vector<std::uint8_t>>();
  if (static_cast<std::int64_t>((*buffer)->size()) < all) (*buffer)->resize(static_cast<std::size_t>(all + all / 4));
  parcel.bytes = *buffer;
  std::uint8_t* out = (*buffer)->data();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    WriteHeader(header, sizes[rank], out);
    out = Put(signature, out + kHeaderBytes);
    out = Put(facts, out);
    out = Put(answer, out);
    out = Put(sections.keys[rank], out);
    out = Put(sections.rows[rank], out);
  }
  return parcel;
}

CoreStatus ReadMessages(const Parcel& parcel, int ranks, std::int64_t sequence, Messages* messages) {
  const std::uint8_t* at = parcel.bytes->data();
  std::int64_t left = static_cast<std::int64_t>(parcel.bytes->size());
  messages->keys.keeps = messages->rows.keeps = parcel.bytes;
  if (static_cast<int>(parcel.sizes.size()) != ranks) {
    return Error(kE301, "messages of ", parcel.sizes.size(), " ranks came, there are ", ranks);
  }
  for (std::size_t rank = 0; rank < parcel.sizes.size(); ++rank) {
    PeerHeader header;
    SectionSizes sizes;
    if (parcel.sizes[rank] > left) return Error(kE301, "the messages are longer than their memory");
    const CoreStatus status = ReadHeader(at, parcel.sizes[rank], &header, &sizes);
    if (!status.ok() && status.text().compare(0, 4, kE313.number) == 0) {
      return Error(kE313, "rank ", rank, " differs: ", status.text().substr(6));
    }
    if (!status.ok()) return Error(kE301, "the message of rank ", rank, " is damaged: ", status.text());
    if (header.sequence != sequence) {
      return Error(kE301, "rank ", rank, " makes exchange ", header.sequence, ", this rank ", sequence);
    }
    const std::uint8_t* section = at + kHeaderBytes;
    messages->signatures.emplace_back(reinterpret_cast<const char*>(section),
                                      static_cast<std::size_t>(sizes.signature));
    section += FilledUp(sizes.signature);
    messages->facts.emplace_back(reinterpret_cast<const char*>(section), static_cast<std::size_t>(sizes.facts));
    section += FilledUp(sizes.facts);
    messages->answers.emplace_back(reinterpret_cast<const char*>(section), static_cast<std::size_t>(sizes.answer));
    section += FilledUp(sizes.answer);
    messages->keys.from.push_back({section, sizes.keys});
    messages->rows.from.push_back({section + FilledUp(sizes.keys), sizes.rows});
    messages->headers.push_back(std::move(header));
    at += parcel.sizes[rank];
    left -= parcel.sizes[rank];
  }
  return CoreStatus();
}

bool AllHaveEnded(const Parcel& parcel) {
  const std::uint8_t* at = parcel.bytes->data();
  for (const std::int64_t size : parcel.sizes) {
    PeerHeader header;
    SectionSizes sizes;
    if (!ReadHeader(at, size, &header, &sizes).ok()) return true;
    if (header.kind != PeerKind::kBroken && header.kind != PeerKind::kLeave) return false;
    at += size;
  }
  return true;
}

}  // namespace ascpipe
