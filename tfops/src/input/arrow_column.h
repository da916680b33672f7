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

// Values of a column without lists, or all items of the lists of a column. Positions begin with 0. The array that was
// passed to Open owns the memory.
class ArrowValues {
 public:
  // Fails unless the values are numbers, bools, strings, or dictionary indices of such values.
  static CoreStatus Open(const ArrowArray& array, const ArrowSchema& schema, ArrowValues* values);

  std::int64_t size() const { return size_; }
  bool has_nulls() const { return valid_ != nullptr || (dictionary_ != nullptr && dictionary_->has_nulls()); }
  bool IsNull(std::int64_t at) const;

  // True if int64 may be unable to represent a value.
  bool may_exceed() const { return dictionary_ != nullptr ? dictionary_->may_exceed() : format_ == 'L'; }
  // True if int64 cannot represent the value.
  bool Exceeds(std::int64_t at) const;

  // Converts the values at `count` positions. Nulls are converted to any value. Fails if the values are strings.
  template <typename Number>
  bool Gather(const std::int64_t* at, std::int64_t count, Number* out) const;
  // Fails if the values are numbers. Nulls become empty strings.
  bool Gather(const std::int64_t* at, std::int64_t count, ByteRange* out) const;

 private:
  static bool HasBit(const std::uint8_t* bits, std::int64_t at) { return (bits[at / 8] >> (at % 8) & 1) != 0; }
  std::int64_t IndexAt(std::int64_t at) const;
  template <typename Offset>
  void GatherBytes(const std::int64_t* at, std::int64_t count, ByteRange* out) const;

  char format_ = 0;  // of the C data interface; strings are 'z' or 'Z'
  std::int64_t size_ = 0, offset_ = 0;
  const std::uint8_t* valid_ = nullptr;      // null: no value is null
  const void* data_ = nullptr;               // values; for strings, offsets
  const char* bytes_ = nullptr;              // of strings
  std::shared_ptr<ArrowValues> dictionary_;  // null: not a dictionary. Otherwise, the values are indices
};

// Range of positions of the values of a row.
struct ArrowRange {
  std::int64_t begin, end;
};

class ArrowColumn {
 public:
  static CoreStatus Open(const ArrowArray& array, const ArrowSchema& schema, ArrowColumn* column);

  // True if a row may have any number of values. Otherwise, each row has one value.
  bool is_list() const { return form_ != Form::kPlain; }
  const ArrowValues& values() const { return values_; }

  // True if the row is null. In a column without lists, a row is null if its value is null.
  bool IsNull(std::int64_t row) const;
  // For a null row, the range may be empty or contain undefined values.
  ArrowRange RangeOf(std::int64_t row) const;

 private:
  enum class Form { kPlain, kList, kLargeList, kFixedList };

  Form form_ = Form::kPlain;
  std::int64_t size_ = 0, offset_ = 0, fixed_ = 0;
  const std::uint8_t* valid_ = nullptr;  // of lists
  const void* offsets_ = nullptr;
  ArrowValues values_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_ARROW_COLUMN_H_
