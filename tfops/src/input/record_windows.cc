#include "input/record_windows.h"

#include <algorithm>

#include "core/error_codes.gen.h"
#include "input/record_set.h"

namespace ascpipe {

CoreStatus RecordWindows::Find(std::int64_t number, ByteRange* data) {
  const std::int64_t wanted = number / set_.window();
  Window* const window = windows_ + wanted % 2;
  if (window->number != wanted) {
    const CoreStatus status = Load(wanted, window);
    if (!status.ok()) return status;
  }
  const auto problem = window->problems.find(number);
  if (problem != window->problems.end()) return problem->second;
  const auto place = static_cast<std::size_t>(number - wanted * set_.window());
  const std::size_t begin = place == 0 ? 0 : window->ends[place - 1];
  *data = {window->bytes.data() + begin, window->ends[place] - begin};
  return CoreStatus();
}

CoreStatus RecordWindows::Load(std::int64_t number, Window* window) {
  window->number = -1;
  window->bytes.clear();
  window->ends.clear();
  window->problems.clear();
  const std::int64_t first = number * set_.window();
  const std::int64_t last = std::min(first + set_.window(), set_.records());
  if (next_ > first) reader_ = nullptr;                     // the wanted window is an earlier window
  if (reader_ == nullptr || set_.FileOf(first) != file_) {  // skips whole files without reading them
    reader_ = nullptr;
    next_ = set_.FirstOf(set_.FileOf(first));
  }
  while (next_ < first) {
    const CoreStatus status = Take(nullptr, window);
    if (!status.ok()) return status;
  }
  while (next_ < last) {
    ByteRange data{nullptr, 0};
    const CoreStatus status = Take(&data, window);
    if (!status.ok()) return status;
    window->bytes.insert(window->bytes.end(), data.data, data.data + data.size);
    window->ends.push_back(window->bytes.size());
  }
  window->number = number;
  return CoreStatus();
}

CoreStatus RecordWindows::Take(ByteRange* data, Window* window) {
  RecordPlace place;
  bool is_end = true;
  CoreStatus status;
  const std::size_t file = set_.FileOf(next_);
  if (reader_ == nullptr || file != file_) {
    status = set_.OpenReader(file, &reader_);
    if (!status.ok()) return status;
    file_ = file;
  }
  status = data == nullptr ? reader_->Skip(&place, &is_end) : reader_->Next(&place, data, &is_end);
  if (!status.ok() && data != nullptr && status.code() == Code::kDataLoss) {
    const CoreStatus skipped = reader_->Skip(&place, &is_end);
    if (!skipped.ok()) return status;
    window->problems.emplace(next_, status);
    status = CoreStatus();
    *data = {nullptr, 0};
  }
  if (status.ok() && is_end) {
    status = Error(kE333, reader_->file().path(), " has fewer records than its index. Build the index again");
  }
  if (status.ok()) ++next_;
  return status;
}

}  // namespace ascpipe
