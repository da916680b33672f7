#include "core/pump.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "core/reading_figures.h"

namespace ascpipe {

Pump::Pump(const SessionView& session, int spin_us, std::vector<Stream*> streams,
           std::shared_ptr<SpanRing<layout::ReadingSpan>> reading_spans)
    : session_(session), spin_us_(spin_us), streams_(std::move(streams)), reading_spans_(std::move(reading_spans)) {}

void Pump::Start() {
  ReadingFigures::Get()->Publish(session_.reading, reading_spans_);
  // The pump blocks all signals, because only threads of the user's program may handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "asc-pump");
    Run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pump::Add(Stream* stream) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
  }
  Ring(session_.bells + layout::kBellPump);
}

void Pump::Stop() {
  stop_.store(true);
  Ring(session_.bells + layout::kBellPump);
  if (thread_.joinable()) thread_.join();
  ReadingFigures::Get()->Withdraw(session_.reading);
}

bool Pump::Round() {
  std::lock_guard<std::mutex> lock(mutex_);
  bool any = false;
  for (Stream* stream : streams_) any = stream->Pump() || any;
  return any;
}

std::int64_t Pump::FirstParked() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::int64_t parked = 0;
  for (Stream* stream : streams_) parked = parked != 0 ? parked : stream->FirstParked();
  return parked;
}

void Pump::Run() {
  BellOwner bell(session_.bells + layout::kBellPump, spin_us_);
  int slice_ms = layout::kSliceMs;
  while (!stop_.load()) {
    while (!stop_.load() && Round()) slice_ms = layout::kSliceMs;
    const std::int64_t parked = FirstParked();
    bell.Says(parked != 0 ? layout::kWaitRoom : layout::kWaitBatch, -1, parked);
    if (parked == 0 && slice_ms == layout::kSliceMs) {
      // A thread that submits a batch fills the frame, and rings the bell of the pump only if the ring has no space.
      bell.Pause([this] { return stop_.load() || FirstParked() != 0; });
      slice_ms = IdleSlice(slice_ms);
    } else {  // any publisher that rings the bell ends the sleep, so polls may become less frequent
      const bool any = bell.WaitSlice([this] { return stop_.load() || Round(); }, slice_ms);
      slice_ms = any ? layout::kSliceMs : IdleSlice(slice_ms);
    }
  }
  bell.Says(layout::kWaitNone, -1, 0);
}

}  // namespace ascpipe
