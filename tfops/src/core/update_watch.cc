#include "core/update_watch.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"
#include "core/late_waits.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kNsPerS = 1000000000;

// Runs the work on a single thread, so that lookups can use the other processors.
void Alone(std::int64_t total, std::int64_t, const Blocks::Work& work) {
  if (total > 0) work(0, total);
}

// Lists the names of updates in a directory, sorted by sequence number. Returns an errno.
int List(const std::string& directory, std::vector<std::string>* names) {
  DIR* const opened = opendir(directory.c_str());
  if (opened == nullptr) return errno;
  while (const dirent* const entry = readdir(opened)) {
    UpdateName parsed;
    if (ParseUpdateName(entry->d_name, &parsed)) names->push_back(entry->d_name);
  }
  closedir(opened);
  std::sort(names->begin(), names->end());  // the sequences have the same number of digits
  return 0;
}

}  // namespace

UpdateWatch::UpdateWatch(std::string directory, double every_s, ServedAt at)
    : directory_(std::move(directory)), every_s_(every_s), base_at_(std::move(at)) {}

UpdateWatch::~UpdateWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_requested_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UpdateWatch::Add(const std::string& table, std::shared_ptr<const RowTable> rows) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (tables_.emplace(table, std::move(rows)).second) was_changed_ = true;
}

bool UpdateWatch::Has(const std::string& table) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tables_.count(table) > 0;
}

void UpdateWatch::Start() {
  std::lock_guard<std::mutex> updating(updating_);
  auto base = std::make_shared<ServedVersion>();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!was_changed_) return;
    was_changed_ = false;
    for (const auto& table : tables_) base->tables.emplace(table.first, LayeredRows(table.second));
  }
  base->at = base_at_;
  Advance(base, true);
  std::lock_guard<std::mutex> lock(mutex_);
  if (thread_.joinable()) return;
  // The watch thread blocks all signals, because only threads of the program may handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "asc-updates");
    Run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void UpdateWatch::Run() {
  const auto every = std::chrono::nanoseconds(static_cast<std::int64_t>(every_s_ * kNsPerS));
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_requested_.wait_for(lock, every, [this] { return stop_; })) {
    lock.unlock();
    Poll();
    lock.lock();
  }
}

void UpdateWatch::Poll() {
  std::lock_guard<std::mutex> updating(updating_);
  const std::shared_ptr<const ServedVersion> current = Current();
  if (current != nullptr) Advance(current, false);
}

std::shared_ptr<const ServedVersion> UpdateWatch::Current() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return current_;
}

UpdateWatch::Figures UpdateWatch::figures() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Figures figures = figures_;
  if (current_ != nullptr) {
    for (const auto& table : current_->tables) figures.kept_keys += table.second.layer_keys();
  }
  return figures;
}

// Applies the updates that follow the version `from`, and publishes the result. If there are no updates, publishes
// `from` if `always` is true.
void UpdateWatch::Advance(const std::shared_ptr<const ServedVersion>& from, bool always) {
  std::vector<Seen> updates = Look(from->at.sequence);
  std::shared_ptr<const ServedVersion> result = from;
  std::size_t applied = 0;
  while (true) {
    std::vector<UpdateInfo> infos;
    infos.reserve(updates.size());
    for (const Seen& update : updates) infos.push_back(update.info);
    const UpdatePlan plan = PlanUpdates(from->at, infos);
    auto next = std::make_shared<ServedVersion>(*from);
    next->at.sequence = std::max(from->at.sequence, plan.sequence);
    CoreStatus status;
    for (applied = 0; applied < plan.apply.size(); ++applied) {
      status = Apply(updates[plan.apply[applied]], next.get());
      if (!status.ok()) break;
    }
    if (!status.ok()) {  // plan again without this update
      const std::size_t failed = plan.apply[applied];
      Refuse(updates[failed], status);
      updates.erase(updates.begin() + static_cast<std::ptrdiff_t>(failed));
      continue;
    }
    if (plan.refused >= 0) ReportOrder(updates[static_cast<std::size_t>(plan.refused)], next->at);
    if (applied > 0 || next->at.sequence != from->at.sequence) result = std::move(next);
    break;
  }
  if (result == from && !always) return;
  // The old version is freed by the destructor of `result` after the lock is released, because freeing its memory takes
  // long.
  std::lock_guard<std::mutex> lock(mutex_);
  figures_.applied += static_cast<std::int64_t>(applied);
  current_.swap(result);
}

// Returns the readable updates whose sequence number is above `after`. Files that were refused before are read again
// only if they have changed.
std::vector<UpdateWatch::Seen> UpdateWatch::Look(std::int64_t after) {
  std::vector<std::string> names;
  const int error = List(directory_, &names);
  if (error != 0 && is_readable_) {
    Report(Error(kE341, "The directory of updates ", directory_, " cannot be read: ", std::strerror(error),
                 ". The last good version is served, and the directory is read again every ", every_s_, " s"),
           0);
  }
  is_readable_ = error == 0;
  std::map<std::string, Stamp> refused;
  refused.swap(refused_);  // refused files that were removed are forgotten
  std::vector<Seen> updates;
  for (const std::string& name : names) {
    UpdateName parsed;
    if (!ParseUpdateName(name, &parsed) || parsed.sequence <= after) continue;
    Seen update{name, StampOf(directory_ + "/" + name), UpdateInfo()};
    const auto known = refused.find(name);
    if (known != refused.end() && known->second == update.stamp) {
      refused_.insert(*known);
      continue;
    }
    std::unique_ptr<UpdateFile> file;
    const CoreStatus status = UpdateFile::Open(directory_, name, &file);
    if (status.ok()) {
      update.info = file->info();
      updates.push_back(std::move(update));
    } else {
      Refuse(update, status);
    }
  }
  return updates;
}

// Applies an update to `version`. After an error, `version` must not be published, because it has rows of different
// steps.
CoreStatus UpdateWatch::Apply(const Seen& update, ServedVersion* version) const {
  std::unique_ptr<UpdateFile> file;
  CoreStatus status = UpdateFile::Open(directory_, update.name, &file);
  if (!status.ok()) return status;
  if (file->info().id != update.info.id || file->info().base_id != update.info.base_id) {
    return Error(kE341, "Update ", file->path(),
                 " was refused: another file has replaced it while it was read. The "
                 "last good version is served");
  }
  for (auto& table : version->tables) {
    std::shared_ptr<const RowTable> rows;
    status = file->Load(table.first, table.second.dim(), Alone, &rows);
    if (!status.ok()) return status;
    bool has_memory = true;
    table.second = update.info.is_full ? LayeredRows(std::move(rows)) : table.second.With(std::move(rows), &has_memory);
    if (!has_memory) {
      return Error(kE341, "Update ", file->path(),
                   " was refused: there is not enough memory for the changed rows of "
                   "table '",
                   table.first,
                   "'. The last good version is served. Give the server more memory, or load "
                   "a newer export");
    }
  }
  version->at = {update.info.sequence, update.info.step, update.info.id};
  return CoreStatus();
}

UpdateWatch::Stamp UpdateWatch::StampOf(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) return {0, -1, 0};
  return {found.st_ino, found.st_size, found.st_ctim.tv_sec * kNsPerS + found.st_ctim.tv_nsec};
}

void UpdateWatch::Refuse(const Seen& update, const CoreStatus& status) {
  if (StampOf(directory_ + "/" + update.name).bytes < 0) return;  // a full update has removed the file
  refused_[update.name] = update.stamp;
  Report(status, 1);
}

// Reports an update that is not based on the version `at`. The update is applied later if the missing updates appear.
void UpdateWatch::ReportOrder(const Seen& update, const ServedAt& at) {
  if (update.info.sequence == out_of_order_) return;
  out_of_order_ = update.info.sequence;
  Report(Error(kE342, "Update ", directory_, "/", update.name, " was refused: it changes the rows of step ",
               update.info.base_step, ", but the rows before it are of step ", at.step,
               ", or of another training. The last good version is served. Copy the missing update, or wait for the "
               "next full update"),
         1);
}

void UpdateWatch::Report(const CoreStatus& status, std::int64_t refused) {
  SayLine("ascpipe: " + status.text());
  std::lock_guard<std::mutex> lock(mutex_);
  figures_.refused += refused;
  figures_.problem = status.text();
}

}  // namespace ascpipe
