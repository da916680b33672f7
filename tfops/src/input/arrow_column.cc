#include "input/arrow_column.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr char kNumberFormats[] = "bcCsSiIlLfg";

CoreStatus Unsupported(const ArrowSchema& schema) {
  return Error(kE332, "The column '", schema.name == nullptr ? "" : schema.name, "' has the Arrow format '",
               schema.format, "', which the dataset cannot read. No batch has its rows. Cast the column");
}

// Returns the validity bitmap of an array, or null if the array has no nulls.
const std::uint8_t* ValidOf(const ArrowArray& array) {
  return array.null_count == 0 || array.n_buffers < 1 ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
}

template <typename From, typename To>
void Convert(const void* data, std::int64_t offset, const std::int64_t* at, std::int64_t count, To* out) {
  const From* const from = static_cast<const From*>(data) + offset;
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<To>(from[at[i]]);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
  }
}

template <typename Offset>
ArrowRange RangeIn(const void* offsets, std::int64_t at) {
  const Offset* const all = static_cast<const Offset*>(offsets);
  return {all[at], all[at + 1]};
}

}  // namespace

CoreStatus ArrowValues::Open(const ArrowArray& array, const ArrowSchema& schema, ArrowValues* values) {
  const bool is_plain = std::strlen(schema.format) == 1;
  char format = is_plain ? schema.format[0] : '\0';
  if (format == 'u') format = 'z';
  if (format == 'U') format = 'Z';
  const bool is_bytes = format == 'z' || format == 'Z';
  if (!is_plain || (!is_bytes && std::strchr(kNumberFormats, format) == nullptr) ||
      array.n_buffers != (is_bytes ? 3 : 2)) {
    return Unsupported(schema);
  }
  values->format_ = format;
  values->size_ = array.length;
  values->offset_ = array.offset;
  values->valid_ = ValidOf(array);
  values->data_ = array.buffers[1];
  if (is_bytes) values->bytes_ = static_cast<const char*>(array.buffers[2]);
  if (schema.dictionary == nullptr) return CoreStatus();
  if (is_bytes || array.dictionary == nullptr) return Unsupported(schema);
  values->dictionary_ = std::make_shared<ArrowValues>();
  return Open(*array.dictionary, *schema.dictionary, values->dictionary_.get());
}

std::int64_t ArrowValues::IndexAt(std::int64_t at) const {
  std::int64_t index = 0;
  switch (format_) {
    case 'c':
      Convert<std::int8_t>(data_, offset_, &at, 1, &index);
      break;
    case 'C':
      Convert<std::uint8_t>(data_, offset_, &at, 1, &index);
      break;
    case 's':
      Convert<std::int16_t>(data_, offset_, &at, 1, &index);
      break;
    case 'S':
      Convert<std::uint16_t>(data_, offset_, &at, 1, &index);
      break;
    case 'i':
      Convert<std::int32_t>(data_, offset_, &at, 1, &index);
      break;
    case 'I':
      Convert<std::uint32_t>(data_, offset_, &at, 1, &index);
      break;
    default:
      Convert<std::int64_t>(data_, offset_, &at, 1, &index);
  }
  return index;
}

bool ArrowValues::IsNull(std::int64_t at) const {
  if (valid_ != nullptr && !HasBit(valid_, offset_ + at)) return true;
  return dictionary_ != nullptr && dictionary_->IsNull(IndexAt(at));
}

bool ArrowValues::Exceeds(std::int64_t at) const {
  if (dictionary_ != nullptr) return dictionary_->Exceeds(IndexAt(at));
  if (format_ != 'L') return false;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<const std::uint64_t*>(data_)[offset_ + at] > kMost;
}

template <typename Number>
bool ArrowValues::Gather(const std::int64_t* at, std::int64_t count, Number* out) const {
  if (dictionary_ != nullptr) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) indices[i] = IsNull(at[i]) ? 0 : IndexAt(at[i]);
    if (dictionary_->size() == 0) return true;  // all values are null
    return dictionary_->Gather(indices.data(), count, out);
  }
  switch (format_) {
    case 'b': {
      const auto* const bits = static_cast<const std::uint8_t*>(data_);
      for (std::int64_t i = 0; i < count; ++i) out[i] = HasBit(bits, offset_ + at[i]) ? 1 : 0;
      return true;
    }
    case 'c':
      return Convert<std::int8_t>(data_, offset_, at, count, out), true;
    case 'C':
      return Convert<std::uint8_t>(data_, offset_, at, count, out), true;
    case 's':
      return Convert<std::int16_t>(data_, offset_, at, count, out), true;
    case 'S':
      return Convert<std::uint16_t>(data_, offset_, at, count, out), true;
    case 'i':
      return Convert<std::int32_t>(data_, offset_, at, count, out), true;
    case 'I':
      return Convert<std::uint32_t>(data_, offset_, at, count, out), true;
    case 'l':
      return Convert<std::int64_t>(data_, offset_, at, count, out), true;
    case 'L':
      return Convert<std::uint64_t>(data_, offset_, at, count, out), true;
    case 'f':
      return Convert<float>(data_, offset_, at, count, out), true;
    case 'g':
      return Convert<double>(data_, offset_, at, count, out), true;
    default:
      return false;
  }
}

template bool ArrowValues::Gather(const std::int64_t*, std::int64_t, std::int64_t*) const;
template bool ArrowValues::Gather(const std::int64_t*, std::int64_t, float*) const;

template <typename Offset>
void ArrowValues::GatherBytes(const std::int64_t* at, std::int64_t count, ByteRange* out) const {
  for (std::int64_t i = 0; i < count; ++i) {
    const ArrowRange range = RangeIn<Offset>(data_, offset_ + at[i]);
    out[i] = {bytes_ + range.begin, static_cast<std::size_t>(range.end - range.begin)};
  }
}

bool ArrowValues::Gather(const std::int64_t* at, std::int64_t count, ByteRange* out) const {
  if (dictionary_ != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = {nullptr, 0};
      const std::int64_t index = IsNull(at[i]) ? -1 : IndexAt(at[i]);
      if (index >= 0 && !dictionary_->Gather(&index, 1, out + i)) return false;
    }
    return true;
  }
  if (format_ == 'z') {
    GatherBytes<std::int32_t>(at, count, out);
  } else if (format_ == 'Z') {
    GatherBytes<std::int64_t>(at, count, out);
  } else {
    return false;
  }
  return true;
}

CoreStatus ArrowColumn::Open(const ArrowArray& array, const ArrowSchema& schema, ArrowColumn* column) {
  const std::string format = schema.format;
  if (format == "+l") {
    column->form_ = Form::kList;
  } else if (format == "+L") {
    column->form_ = Form::kLargeList;
  } else if (format.compare(0, 3, "+w:") == 0) {
    column->form_ = Form::kFixedList;
    column->fixed_ = std::strtoll(format.c_str() + 3, nullptr, 10);
  } else {
    return ArrowValues::Open(array, schema, &column->values_);
  }
  const bool is_fixed = column->form_ == Form::kFixedList;
  if (schema.n_children != 1 || array.n_children != 1 || array.n_buffers != (is_fixed ? 1 : 2)) {
    return Unsupported(schema);
  }
  column->size_ = array.length;
  column->offset_ = array.offset;
  column->valid_ = ValidOf(array);
  if (!is_fixed) column->offsets_ = array.buffers[1];
  return ArrowValues::Open(*array.children[0], *schema.children[0], &column->values_);
}

bool ArrowColumn::IsNull(std::int64_t row) const {
  if (!is_list()) return values_.IsNull(row);
  return valid_ != nullptr && (valid_[(offset_ + row) / 8] >> ((offset_ + row) % 8) & 1) == 0;
}

ArrowRange ArrowColumn::RangeOf(std::int64_t row) const {
  const std::int64_t at = offset_ + row;
  switch (form_) {
    case Form::kList:
      return RangeIn<std::int32_t>(offsets_, at);
    case Form::kLargeList:
      return RangeIn<std::int64_t>(offsets_, at);
    case Form::kFixedList:
      return {at * fixed_, (at + 1) * fixed_};
    default:
      return {row, row + 1};
  }
}

}  // namespace ascpipe
