#include "input/row_group_loader.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr int kMessageBytes = 8192;
constexpr std::chrono::seconds kMostWait(60);  // limit, because a file system may not respond

// The gate is never destroyed, because threads may use it while static objects are destroyed.
struct LoaderGate {
  std::mutex mutex;
  std::condition_variable left;
  LoadRowGroup load = nullptr;
  int inside = 0;  // number of threads that use Python or Arrow's memory
};

LoaderGate& Gate() {
  static LoaderGate* const gate = new LoaderGate;
  return *gate;
}

// Counts the threads that use Python or Arrow's memory. `load()` is null if Python and Arrow's memory must no longer be
// used.
class LoaderUse {
 public:
  LoaderUse() {
    LoaderGate& gate = Gate();
    std::lock_guard<std::mutex> lock(gate.mutex);
    load_ = gate.load;
    if (load_ != nullptr) ++gate.inside;
  }
  ~LoaderUse() {
    if (load_ == nullptr) return;
    LoaderGate& gate = Gate();
    std::lock_guard<std::mutex> lock(gate.mutex);
    if (--gate.inside == 0) gate.left.notify_all();
  }
  LoaderUse(const LoaderUse&) = delete;
  LoaderUse& operator=(const LoaderUse&) = delete;

  LoadRowGroup load() const { return load_; }

 private:
  LoadRowGroup load_;
};

CoreStatus FailureOf(int code, const char* text) {
  switch (code) {
    case 330:
      return Error(kE330, text);
    case 331:
      return Error(kE331, text);
    case 340:
      return Error(kE340, text);
    default:
      return Error(kE332, text);
  }
}

}  // namespace

void SetRowGroupLoader(LoadRowGroup load) {
  LoaderGate& gate = Gate();
  std::unique_lock<std::mutex> lock(gate.mutex);
  gate.load = load;
  if (load == nullptr) gate.left.wait_for(lock, kMostWait, [&gate] { return gate.inside == 0; });
}

CoreStatus RowGroup::Load(RowGroupArguments arguments, std::shared_ptr<const RowGroup>* group) {
  const LoaderUse use;
  if (use.load() == nullptr) {
    return Error(Code::kCancelled, "the program ended while the dataset was reading ", arguments.path);
  }
  std::shared_ptr<RowGroup> loaded(new RowGroup);
  std::vector<char> text(kMessageBytes);
  arguments.array = &loaded->array_;
  arguments.schema = &loaded->schema_;
  arguments.text = text.data();
  arguments.text_bytes = kMessageBytes;
  const int code = use.load()(&arguments);
  text.back() = '\0';
  if (code != 0) return FailureOf(code, text.data());
  const CoreStatus status = loaded->Open(arguments);
  if (status.ok()) *group = std::move(loaded);
  return status;
}

CoreStatus RowGroup::Open(const RowGroupArguments& arguments) {
  const auto count = static_cast<std::int64_t>(arguments.columns_count);
  if (array_.release == nullptr || schema_.release == nullptr || array_.length != arguments.rows ||
      array_.n_children != count || schema_.n_children != count) {
    return Error(kE330, arguments.path, ": row group ", arguments.group, " has ", array_.length, " rows and ",
                 array_.n_children, " columns, and the footer has ", arguments.rows, " rows and ", count,
                 " columns. No batch has these rows. Write the file again");
  }
  columns_.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const CoreStatus status = ArrowColumn::Open(*array_.children[i], *schema_.children[i], &columns_[i]);
    if (!status.ok()) return status;
    if (array_.children[i]->length < arguments.rows) {
      return Error(kE330, arguments.path, ": column '", arguments.columns[i], "' of row group ", arguments.group,
                   " has ", array_.children[i]->length, " rows, expected ", arguments.rows,
                   ". No batch has these rows. Write the file again");
    }
  }
  return CoreStatus();
}

RowGroup::~RowGroup() {
  const LoaderUse use;
  if (use.load() == nullptr) return;  // the process is exiting
  if (array_.release != nullptr) array_.release(&array_);
  if (schema_.release != nullptr) schema_.release(&schema_);
}

}  // namespace ascpipe
