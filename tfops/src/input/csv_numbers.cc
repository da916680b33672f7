#include "input/csv_numbers.h"

#include <locale.h>

#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ascpipe {

const std::int8_t kHexDigits[256] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
    -1, -1, -1, -1, -1, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

const double kPowersOfTen[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

const long double kWidePowersOfTen[23] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,
                                          1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L,
                                          1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L};

namespace {

bool IsSpace(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool IsDigit(char byte) { return byte >= '0' && byte <= '9'; }

ByteRange WithoutSpaces(ByteRange text) {
  while (text.size > 0 && IsSpace(text.data[0])) text = {text.data + 1, text.size - 1};
  while (text.size > 0 && IsSpace(text.data[text.size - 1])) --text.size;
  return text;
}

// Reads a decimal number. The absolute value of the number must be at most `most`, or at most `most` + 1 if the number
// is negative.
bool ParseInteger(ByteRange text, std::uint64_t most, std::int64_t* value) {
  text = WithoutSpaces(text);
  const bool is_negative = text.size > 0 && text.data[0] == '-';
  const std::size_t first = is_negative ? 1 : 0;
  if (text.size == first) return false;
  const std::uint64_t limit = is_negative ? most + 1 : most;
  std::uint64_t number = 0;
  for (std::size_t i = first; i < text.size; ++i) {
    if (!IsDigit(text.data[i])) return false;
    const auto digit = static_cast<std::uint64_t>(text.data[i] - '0');
    if (number > (limit - digit) / 10) return false;
    number = number * 10 + digit;
  }
  *value = static_cast<std::int64_t>(is_negative ? ~number + 1 : number);
  return true;
}

// Syntax of a floating-point number in a text field.
enum class Form { kInvalid, kBlank, kInfinity, kNan, kDecimal, kHex };

bool IsWord(const char* text, const char* lower) {
  for (; *lower != '\0'; ++text, ++lower) {
    if ((*text | 0x20) != *lower) return false;  // the words consist only of letters
  }
  return *text == '\0';
}

bool IsHexInteger(const char* text) {
  if (text[0] != '0' || (text[1] | 0x20) != 'x' || text[2] == '\0') return false;
  for (text += 2; *text != '\0'; ++text) {
    if (HexDigit(*text) >= 16) return false;
  }
  return true;
}

bool IsDecimal(const char* text) {
  const char* const begin = text;
  while (IsDigit(*text)) ++text;
  std::ptrdiff_t digits = text - begin;
  if (*text == '.') {
    const char* const fraction = ++text;
    while (IsDigit(*text)) ++text;
    digits += text - fraction;
  }
  if (digits == 0) return false;
  if ((*text | 0x20) == 'e') {
    ++text;
    if (*text == '-' || *text == '+') ++text;
    if (!IsDigit(*text)) return false;
    while (IsDigit(*text)) ++text;
  }
  return *text == '\0';
}

// Text of a number as a C string for strtof and strtod.
struct FloatText {
  char positive[kMostFloatBytes + 1];  // the number without its sign
  bool is_negative;
};

Form ReadForm(ByteRange given, FloatText* text) {
  text->is_negative = false;
  if (given.size > kMostFloatBytes) return Form::kInvalid;
  ByteRange number = WithoutSpaces(given);
  if (number.size == 0) return Form::kBlank;
  text->is_negative = number.data[0] == '-';
  if (number.data[0] == '-' || number.data[0] == '+') number = {number.data + 1, number.size - 1};
  if (std::memchr(number.data, '\0', number.size) != nullptr) return Form::kInvalid;
  std::memcpy(text->positive, number.data, number.size);
  text->positive[number.size] = '\0';
  if (IsWord(text->positive, "inf")) return Form::kInfinity;
  if (IsWord(text->positive, "nan")) return Form::kNan;
  if (IsDecimal(text->positive)) return Form::kDecimal;
  return IsHexInteger(text->positive) ? Form::kHex : Form::kInvalid;
}

// Returns the C locale, because the program's locale may use another decimal separator.
locale_t PlainLocale() {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  return plain;
}

// Returns the float that double-conversion computes in a thread that flushes subnormal numbers. For a number up to
// FLT_MIN, the result is zero or FLT_MIN. The result is FLT_MIN if the next larger double, rounded to 24 bits, is at
// least FLT_MIN.
float Flushed(float value, const char* text) {
  constexpr double kLeast = FLT_MIN * (1.0 - 1.0 / (1 << 25));
  if (value > FLT_MIN) return value;
  const double exact = strtod_l(text, nullptr, PlainLocale());
  return std::nextafter(exact, 1.0) < kLeast ? 0.0f : FLT_MIN;
}

template <typename Float>
bool ParseReal(ByteRange given, bool loses_signs, Float (*finite)(const char*), Float* value) {
  FloatText text;
  Float positive = 0;
  switch (ReadForm(given, &text)) {
    case Form::kInvalid:
      return false;
    case Form::kBlank:
      break;
    case Form::kInfinity:
      positive = std::numeric_limits<Float>::infinity();
      break;
    case Form::kNan:
      positive = std::numeric_limits<Float>::quiet_NaN();
      break;
    case Form::kHex:
      positive = finite(text.positive);
      if (loses_signs && positive >= std::ldexp(Float{1}, std::numeric_limits<Float>::digits)) text.is_negative = false;
      break;
    case Form::kDecimal:
      positive = finite(text.positive);
      break;
  }
  *value = text.is_negative ? -positive : positive;
  return true;
}

}  // namespace

bool ParseInt32(ByteRange text, std::int32_t* value) {
  std::int64_t wide;
  if (!ParseInteger(text, std::numeric_limits<std::int32_t>::max(), &wide)) return false;
  *value = static_cast<std::int32_t>(wide);
  return true;
}

bool ParseInt64(ByteRange text, std::int64_t* value) {
  return ParseInteger(text, std::numeric_limits<std::int64_t>::max(), value);
}

bool ParseHex(ByteRange text, std::int64_t* value) {
  std::uint64_t number = 0;
  if (text.size == 0 || text.size > 16) return false;
  for (std::size_t i = 0; i < text.size; ++i) {
    if (HexDigit(text.data[i]) >= 16) return false;
    number = number << 4 | HexDigit(text.data[i]);
  }
  *value = static_cast<std::int64_t>(number);
  return true;
}

bool ParseFloat(ByteRange text, bool loses_signs, float* value) {
  const auto finite = [](const char* number) { return Flushed(strtof_l(number, nullptr, PlainLocale()), number); };
  return ParseReal<float>(text, loses_signs, finite, value);
}

bool ParseDouble(ByteRange text, bool loses_signs, double* value) {
  const auto finite = [](const char* number) { return strtod_l(number, nullptr, PlainLocale()); };
  return ParseReal<double>(text, loses_signs, finite, value);
}

}  // namespace ascpipe
