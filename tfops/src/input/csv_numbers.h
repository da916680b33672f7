// Parsers of numbers in text fields. The values are equal to the values of TensorFlow's strings::safe_strto32,
// safe_strto64, safe_strtof and safe_strtod in tf.io.decode_csv.
//
// The functions Short... parse numbers in the common forms at the beginning of a text, and return a pointer to the
// first byte after the number. The functions Short... return null if the text does not begin with a number in a common
// form. The functions Parse... parse a whole text, and accept numbers in all forms.
#ifndef ASCPIPE_INPUT_CSV_NUMBERS_H_
#define ASCPIPE_INPUT_CSV_NUMBERS_H_

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "input/wire.h"

namespace ascpipe {

// Parse a decimal number. Spaces around the number are allowed. Return false if the text is not a decimal number, or if
// the number overflows.
bool ParseInt32(ByteRange text, std::int32_t* value);
bool ParseInt64(ByteRange text, std::int64_t* value);

// Parses 1 to 16 hexadecimal digits. If bit 63 is set, the value is negative.
bool ParseHex(ByteRange text, std::int64_t* value);

// Parse decimal numbers, hexadecimal integers, inf and nan. Return false for an invalid text, and for a text of more
// than kMostFloatBytes bytes. A blank text is parsed as 0. Subnormal floats become zero, because TensorFlow's threads
// flush subnormal numbers. Subnormal doubles are kept, because TensorFlow computes doubles with integers.
//
// If `loses_signs` is true, a negative hexadecimal number with more bits than the significand becomes positive.
constexpr std::size_t kMostFloatBytes = 31;
bool ParseFloat(ByteRange text, bool loses_signs, float* value);
bool ParseDouble(ByteRange text, bool loses_signs, double* value);

extern const std::int8_t kHexDigits[256];       // value of each digit, or -1
extern const double kPowersOfTen[23];           // exact
extern const long double kWidePowersOfTen[23];  // exact
constexpr int kMostPowerOfTen = 22;

// Returns the value of a digit. The high bits of the result are set if the byte is not a digit.
inline std::uint64_t HexDigit(char byte) {
  return static_cast<std::uint64_t>(std::int64_t{kHexDigits[static_cast<unsigned char>(byte)]});
}

template <int kMostDigits>
const char* ShortInteger(const char* at, const char* end, std::int64_t* value) {
  const bool is_negative = at != end && *at == '-';
  if (is_negative) ++at;
  const char* const limit = end - at > kMostDigits ? at + kMostDigits + 1 : end;
  const char* const begin = at;
  std::uint64_t number = 0;
  for (; at != limit; ++at) {
    const unsigned digit = static_cast<unsigned char>(*at) - unsigned{'0'};
    if (digit > 9) break;
    number = number * 10 + digit;
  }
  if (at == begin || at - begin > kMostDigits) return nullptr;
  const auto positive = static_cast<std::int64_t>(number);
  *value = is_negative ? -positive : positive;
  return at;
}

inline const char* ShortHex(const char* at, const char* end, std::int64_t* value) {
  if (end - at >= 8) {  // the common number of digits, without a branch for each digit
    std::uint64_t number = 0;
    for (int i = 0; i < 8; ++i) number = number << 4 | HexDigit(at[i]);
    if (number >> 32 == 0) {  // a byte that is not a digit sets the high bits
      *value = static_cast<std::int64_t>(number);
      return at + 8;
    }
  }
  const char* const begin = at;
  std::uint64_t number = 0;
  for (; at != end && at - begin < 8 && HexDigit(*at) < 16; ++at) number = number << 4 | HexDigit(*at);
  *value = static_cast<std::int64_t>(number);
  return at == begin ? nullptr : at;
}

// A decimal number: digits * 10^exponent.
struct ShortDecimal {
  std::uint64_t digits;
  int exponent;
  bool is_negative;
};

// Reads at most 19 digits and a small exponent. Returns null for a number with more digits or a larger exponent.
inline const char* ReadShortDecimal(const char* at, const char* end, ShortDecimal* decimal) {
  constexpr int kMostDigits = 19;
  const char* const begin = at;
  decimal->is_negative = at != end && *at == '-';
  if (decimal->is_negative) ++at;
  std::uint64_t digits = 0;
  const char* const first = at;
  for (unsigned digit; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at) {
    digits = digits * 10 + digit;
  }
  std::ptrdiff_t count = at - first;
  int exponent = 0;
  if (at != end && *at == '.') {
    const char* const fraction = ++at;
    for (unsigned digit; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at) {
      digits = digits * 10 + digit;
    }
    exponent = -static_cast<int>(at - fraction < kMostDigits ? at - fraction : kMostDigits + 1);
    count += at - fraction;
  }
  if (count == 0 || count > kMostDigits) return nullptr;  // the digits of a longer number may have overflowed
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool is_negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    int power = 0;
    const char* const power_begin = at;
    for (unsigned digit; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at) {
      if (at - power_begin == 3) return nullptr;
      power = power * 10 + static_cast<int>(digit);
    }
    if (at == power_begin) return nullptr;
    exponent += is_negative ? -power : power;
  }
  if (at - begin > static_cast<std::ptrdiff_t>(kMostFloatBytes)) return nullptr;
  decimal->digits = digits;
  decimal->exponent = exponent;
  return exponent >= -kMostPowerOfTen && exponent <= kMostPowerOfTen ? at : nullptr;
}

inline double Scaled(double digits, int exponent) {
  return exponent < 0 ? digits / kPowersOfTen[-exponent] : digits * kPowersOfTen[exponent];
}

// Computes digits * 10^exponent with the 80-bit numbers of x86. Returns false if the rounded result may be wrong.
inline bool ScaleWide(std::uint64_t digits, int exponent, double* value) {
#if LDBL_MANT_DIG == 64
  // The digits and the power are exact, so the error of the quotient or product is at most half a unit in the last
  // place. Rounding the result to a double can be wrong only if the boundary between two doubles is within the error of
  // the result.
  const auto wide = static_cast<long double>(digits);
  const long double scaled = exponent < 0 ? wide / kWidePowersOfTen[-exponent] : wide * kWidePowersOfTen[exponent];
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 10, kError = 1;
  std::uint64_t bits;
  std::memcpy(&bits, &scaled, sizeof(bits));
  *value = static_cast<double>(scaled);
  return (bits & (2 * kHalf - 1)) - (kHalf - kError) > 2 * kError;
#else
  static_cast<void>(digits);
  static_cast<void>(exponent);
  static_cast<void>(value);
  return false;
#endif
}

inline const char* ShortDouble(const char* at, const char* end, double* value) {
  ShortDecimal decimal;
  at = ReadShortDecimal(at, end, &decimal);
  if (at == nullptr) return nullptr;
  double positive;
  if (decimal.digits <= std::uint64_t{1} << 53) {
    // The digits and the power of ten are exact doubles, so the result is rounded once (Clinger 1990).
    positive = Scaled(static_cast<double>(decimal.digits), decimal.exponent);
  } else if (!ScaleWide(decimal.digits, decimal.exponent, &positive)) {
    return nullptr;
  }
  *value = decimal.is_negative ? -positive : positive;
  return at;
}

inline const char* ShortFloat(const char* at, const char* end, float* value) {
  ShortDecimal decimal;
  at = ReadShortDecimal(at, end, &decimal);
  if (at == nullptr) return nullptr;
  // The double is rounded at most twice, so its error is less than two units in the last place. Rounding the double to
  // a float can be wrong only if a boundary between two floats is within the error of the double. At a boundary between
  // two floats, the bits of the double that do not fit into a float are a 1 followed by zeros.
  const double positive = Scaled(static_cast<double>(decimal.digits), decimal.exponent);
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 28, kError = 2;
  std::uint64_t bits;
  std::memcpy(&bits, &positive, sizeof(bits));
  if ((bits & (2 * kHalf - 1)) - (kHalf - kError) <= 2 * kError) return nullptr;
  *value = static_cast<float>(decimal.is_negative ? -positive : positive);
  return at;
}

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_CSV_NUMBERS_H_
