// Reader of the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding).
#ifndef ASCPIPE_INPUT_WIRE_H_
#define ASCPIPE_INPUT_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ascpipe {

// View of bytes in the memory of a record.
struct ByteRange {
  const char* data;
  std::size_t size;
};

// Tag of a field with a length: a string, a message, or packed numbers. `number` is at most 15.
constexpr std::uint8_t DelimitedTag(int number) { return static_cast<std::uint8_t>(number << 3 | 2); }

template <typename Word>
Word LoadWord(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));  // little-endian, like the wire format
  return word;
}

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

// Reads one varint of `size` bytes without a branch for each byte. `size` is 1 to 8, and 8 bytes at `data` must be
// readable. Returns false if the bytes are not exactly one varint.
inline bool ReadVarintOf(const char* data, std::size_t size, std::int64_t* number) {
  const std::uint64_t kEnds = 0x8080808080808080u, all = ~std::uint64_t{0} >> (64 - 8 * size);
  const std::uint64_t bytes = LoadWord<std::uint64_t>(data) & all;
  // Groups of 7 bits become groups of 14, 28 and 56 bits.
  std::uint64_t value = bytes & ~kEnds;
  value = (value & 0x007f007f007f007fu) | (value & 0x7f007f007f007f00u) >> 1;
  value = (value & 0x00003fff00003fffu) | (value & 0x3fff00003fff0000u) >> 2;
  value = (value & 0x000000000fffffffu) | (value & 0x0fffffff00000000u) >> 4;
  *number = static_cast<std::int64_t>(value);
  return (bytes & kEnds) == (kEnds & all >> 8);  // all bytes except the last have the high bit
}

// Position in the bytes of a message. A method that returns false may have moved the position.
class Wire {
 public:
  explicit Wire(ByteRange bytes) : at_(Unsigned(bytes.data)), end_(at_ + bytes.size) {}

  bool AtEnd() const { return at_ == end_; }
  std::size_t Left() const { return static_cast<std::size_t>(end_ - at_); }

  // Skips the next byte if it is `tag`. Returns false if the next byte is different or the message has ended.
  bool Skip(std::uint8_t tag) {
    if (at_ == end_ || *at_ != tag) return false;
    ++at_;
    return true;
  }

  // Reads a number of at most 64 bits. Returns false if the number has more than 64 bits, or if the message ends before
  // the end of the number.
  bool Varint(std::uint64_t* number) {
    if (at_ != end_ && *at_ < 0x80) {
      *number = *at_++;
      return true;
    }
    return LongVarint(number);
  }

  // Skips bytes. Returns false if the message has fewer than `count` bytes left.
  bool SkipBytes(std::size_t count) {
    if (count > Left()) return false;
    at_ += count;
    return true;
  }

  // Reads a length, and as many bytes as the length says. Returns false if the message ends too early.
  bool Delimited(ByteRange* bytes) {
    std::uint64_t length;
    if (!Varint(&length) || length > Left()) return false;
    *bytes = {reinterpret_cast<const char*>(at_), static_cast<std::size_t>(length)};
    at_ += length;
    return true;
  }

 private:
  static const std::uint8_t* Unsigned(const char* data) { return reinterpret_cast<const std::uint8_t*>(data); }

  bool LongVarint(std::uint64_t* number) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const std::uint64_t byte = *at_++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        *number = value;
        return shift < 63 || byte <= 1;  // the tenth byte has one bit
      }
    }
    return false;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_WIRE_H_
