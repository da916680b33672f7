#include "core/row_log.h"

#include <algorithm>

#include "core/atomics.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::uint32_t kUntouched = 0, kRead = ~std::uint32_t{0};

}  // namespace

RowLog::RowLog(const HomeRows& home, std::int64_t capacity)
    : home_(home),
      capacity_(capacity),
      words_(home.ready),
      images_(capacity * home.row_floats) {}

CoreStatus RowLog::Make(const std::string& table, const HomeRows& home, std::int64_t bytes,
                        std::unique_ptr<RowLog>* log) {
  const std::int64_t row_bytes = home.row_floats * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t capacity = std::min(home.ready, std::max<std::int64_t>(1, bytes / row_bytes));
  log->reset(new RowLog(home, capacity));
  if ((*log)->words_.get() != nullptr && (*log)->images_.get() != nullptr) return CoreStatus();
  log->reset();
  return Error(Code::kResourceExhausted, "table '", table, "': there is no memory to save it in the background: ",
               capacity * row_bytes, " bytes for images of rows that change during the save and ", 4 * home.ready,
               " bytes of marks. Nothing was saved and nothing changed. Lower save_log_bytes, or save in the "
               "foreground");
}

void RowLog::Keep(const std::int32_t* homes, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t home = homes[i];
    if (home < 0 || home >= home_.ready) continue;
    std::uint32_t* const word = words_.get() + home;
    if (LoadAcquire(word) != kUntouched) continue;
    const std::int64_t at = FetchAdd(&used_, std::int64_t{1});
    CopyFloats(images_.get() + at * home_.row_floats, home_.data + home * home_.row_floats, home_.row_floats);
    // If it fails, the row was read, and the image is not needed.
    CompareExchange(word, kUntouched, static_cast<std::uint32_t>(at + 1));
  }
}

void RowLog::WantOnly(const std::int32_t* homes, std::int64_t count) {
  const PrivateArray<std::uint64_t> wanted(home_.ready / 64 + 1);  // a bit for each
  if (wanted.get() == nullptr) return;  // then the log just takes more memory than it needs
  for (std::int64_t i = 0; i < count; ++i) wanted.get()[homes[i] / 64] |= std::uint64_t{1} << (homes[i] % 64);
  for (std::int64_t home = 0; home < home_.ready; ++home) {
    if ((wanted.get()[home / 64] >> (home % 64) & 1) == 0) CompareExchange(words_.get() + home, kUntouched, kRead);
  }
}

void RowLog::Read(const std::int32_t* homes, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t home = homes[i];
    if (i + kRowsAhead < count) __builtin_prefetch(home_.data + homes[i + kRowsAhead] * home_.row_floats);
    float* const to = out + i * home_.row_floats;
    CopyFloats(to, home_.data + home * home_.row_floats, home_.row_floats);
    std::uint32_t* const word = words_.get() + home;
    if (CompareExchange(word, kUntouched, kRead)) continue;
    const std::uint32_t found = LoadAcquire(word);
    if (found != kRead) CopyFloats(to, images_.get() + (std::int64_t{found} - 1) * home_.row_floats, home_.row_floats);
  }
}

std::int64_t RowLog::kept() const { return LoadAcquire(&used_); }

}  // namespace ascpipe
