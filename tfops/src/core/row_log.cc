#include "core/row_log.h"

#include <algorithm>

#include "core/atomics.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::uint32_t kUntouched = 0, kRead = ~std::uint32_t{0};

}  // namespace

RowLog::RowLog(const HomeRows& home, std::int64_t numbers, std::int64_t capacity)
    : home_(home), numbers_(numbers), capacity_(capacity), words_(numbers), images_(capacity * home.row_floats) {}

CoreStatus RowLog::Make(const std::string& table, const HomeRows& home, std::int64_t numbers, std::int64_t bytes,
                        std::unique_ptr<RowLog>* log) {
  const std::int64_t row_bytes = home.row_floats * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t capacity = std::min(numbers, std::max<std::int64_t>(1, bytes / row_bytes));
  log->reset(new RowLog(home, numbers, capacity));
  if ((*log)->words_.get() != nullptr && (*log)->images_.get() != nullptr) return CoreStatus();
  log->reset();
  return Error(Code::kResourceExhausted, "table '", table,
               "': there is no memory to save it in the background: ", capacity * row_bytes,
               " bytes for images of rows that change during the save and ", 4 * numbers,
               " bytes of marks. Nothing was saved and nothing changed. Lower save_log_bytes, or save in the "
               "foreground");
}

void RowLog::Keep(const std::int32_t* numbers, const std::int32_t* homes, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t home = homes[i];
    if (home < 0 || numbers[i] < 0 || numbers[i] >= numbers_) continue;
    std::uint32_t* const word = words_.get() + numbers[i];
    if (LoadAcquire(word) != kUntouched) continue;
    const std::int64_t at = FetchAdd(&used_, std::int64_t{1});
    if (at >= capacity_) continue;  // only if a damaged record contains a row twice
    CopyFloats(images_.get() + at * home_.row_floats, home_.data + home * home_.row_floats, home_.row_floats);
    // The compare-exchange fails if the save has already read the row and does not need the image.
    CompareExchange(word, kUntouched, static_cast<std::uint32_t>(at + 1));
  }
}

void RowLog::WantOnly(const std::int32_t* numbers, std::int64_t count) {
  const PrivateArray<std::uint64_t> wanted(numbers_ / 64 + 1);  // bitmap
  if (wanted.get() == nullptr) return;                          // optional: only saves memory
  for (std::int64_t i = 0; i < count; ++i) wanted.get()[numbers[i] / 64] |= std::uint64_t{1} << (numbers[i] % 64);
  for (std::int64_t number = 0; number < numbers_; ++number) {
    if ((wanted.get()[number / 64] >> (number % 64) & 1) == 0) {
      CompareExchange(words_.get() + number, kUntouched, kRead);
    }
  }
}

void RowLog::Read(const std::int32_t* homes, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t home = homes[i];
    if (i + kRowsAhead < count) __builtin_prefetch(home_.data + homes[i + kRowsAhead] * home_.row_floats);
    float* const to = out + i * home_.row_floats;
    CopyFloats(to, home_.data + home * home_.row_floats, home_.row_floats);
    Settle(home, to);
  }
}

void RowLog::Settle(std::int64_t number, float* row) {
  std::uint32_t* const word = words_.get() + number;
  if (CompareExchange(word, kUntouched, kRead)) return;
  const std::uint32_t found = LoadAcquire(word);
  if (found != kRead) CopyFloats(row, images_.get() + (std::int64_t{found} - 1) * home_.row_floats, home_.row_floats);
}

bool RowLog::IsToRead(std::int64_t number) const { return LoadAcquire(words_.get() + number) != kRead; }

std::int64_t RowLog::kept() const { return LoadAcquire(&used_); }

}  // namespace ascpipe
