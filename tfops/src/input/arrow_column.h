// A column of a decoded row group, in the layout of Arrow (https://arrow.apache.org/docs/format/Columnar.html).
#ifndef ASCPIPE_INPUT_ARROW_COLUMN_H_
#define ASCPIPE_INPUT_ARROW_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "input/arrow_abi.h"
#include "input/wire.h"

namespace ascpipe {

// The values of a column without lists, or all items of the lists of a column. Positions start at 0. The array that was
// passed to Open owns the memory of the values.
class ArrowValues {
 public:
  // Returns an error unless the values are numbers, bools or strings, or indices into a dictionary of numbers, bools or
  // strings.
  static CoreStatus Open(const ArrowArray& array, const ArrowSchema& schema, ArrowValues* values);

  std::int64_t size() const { return size_; }
  bool has_nulls() const { return valid_ != nullptr || (dictionary_ != nullptr && dictionary_->has_nulls()); }
  bool IsNull(std::int64_t at) const;

  // Returns true if some value may be out of the range of int64.
  bool may_exceed() const { return dictionary_ != nullptr ? dictionary_->may_exceed() : format_ == 'L'; }
  // Returns true if the value at position `at` is out of the range of int64.
  bool Exceeds(std::int64_t at) const;

  // Converts the values at `count` positions to Number. The results for nulls are undefined. Returns false if the
  // values are strings.
  template <typename Number>
  bool Gather(const std::int64_t* at, std::int64_t count, Number* out) const;
  // Writes the strings at `count` positions to `out`. Nulls become empty strings. Returns false if the values are
  // numbers.
  bool Gather(const std::int64_t* at, std::int64_t count, ByteRange* out) const;

 private:
  static bool HasBit(const std::uint8_t* bits, std::int64_t at) { return (bits[at / 8] >> (at % 8) & 1) != 0; }
  std::int64_t IndexAt(std::int64_t at) const;
  template <typename Offset>
  void GatherBytes(const std::int64_t* at, std::int64_t count, ByteRange* out) const;

  char format_ = 0;  // format of the C data interface; 'z' or 'Z' for strings
  std::int64_t size_ = 0, offset_ = 0;
  const std::uint8_t* valid_ = nullptr;      // null: no value is null
  const void* data_ = nullptr;               // values; for strings, offsets
  const char* bytes_ = nullptr;              // bytes of the strings
  std::shared_ptr<ArrowValues> dictionary_;  // if not null, the values are indices into the dictionary
};

// Positions of the values of one row.
struct ArrowRange {
  std::int64_t begin, end;
};

class ArrowColumn {
 public:
  static CoreStatus Open(const ArrowArray& array, const ArrowSchema& schema, ArrowColumn* column);

  // Returns true if a row may have any number of values, and false if each row has one value.
  bool is_list() const { return form_ != Form::kPlain; }
  const ArrowValues& values() const { return values_; }

  // Returns true if the row is null. In a column without lists, a row is null if its value is null.
  bool IsNull(std::int64_t row) const;
  // Returns the positions of a row's values. For a null row, the range may be empty or contain undefined values.
  ArrowRange RangeOf(std::int64_t row) const;

 private:
  enum class Form { kPlain, kList, kLargeList, kFixedList };

  Form form_ = Form::kPlain;
  std::int64_t size_ = 0, offset_ = 0, fixed_ = 0;
  const std::uint8_t* valid_ = nullptr;  // validity bitmap of the lists
  const void* offsets_ = nullptr;
  ArrowValues values_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_ARROW_COLUMN_H_
