// Exchanges between threads of one process.
#ifndef ASCPIPE_TESTS_CPP_RANK_TRANSPORT_H_
#define ASCPIPE_TESTS_CPP_RANK_TRANSPORT_H_

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "peers/transport.h"

// Meeting point of the ranks.  Exchange n ends on all ranks when every rank has started exchange n.
class RankMeeting {
 public:
  explicit RankMeeting(int ranks) : ranks_(ranks), begun_(static_cast<std::size_t>(ranks)) {}

  int size() const { return ranks_; }

  void Start(int rank, ascpipe::Parcel parcel, ascpipe::Transport::Done done) {
    std::vector<Begun> all;
    ascpipe::CoreStatus ended;
    bool damaged = false, shortened = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (ended_.ok()) {
        begun_[static_cast<std::size_t>(rank)] = {true, std::move(parcel), std::move(done)};
        ++waiting_;
        changed_.notify_all();
        if (waiting_ < size()) return;
        all.swap(begun_);
        begun_.resize(all.size());
        waiting_ = 0;
        ++exchanges_;
        damaged = exchanges_ == damaged_exchange_;
        shortened = shortened_;
        changed_.notify_all();
      } else {
        ended = ended_;
      }
    }
    if (!ended.ok()) return done(ended, {});
    std::vector<ascpipe::Parcel> came;
    for (std::size_t to = 0; to < all.size(); ++to) {
      came.push_back(Of(all, to));
      if (damaged && static_cast<int>(to) == damaged_rank_) (*came.back().bytes)[0] ^= 1;
      if (shortened) came.back().sizes.pop_back();
    }
    for (std::size_t to = 0; to < all.size(); ++to) {
      const ascpipe::Transport::Done its = std::move(all[to].done);
      all[to].parcel = ascpipe::Parcel();
      its(ascpipe::CoreStatus(), std::move(came[to]));
    }
  }

  // Ends all pending and later exchanges with an error.
  void End(const ascpipe::CoreStatus& why) {
    std::vector<Begun> all;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = why;
      all.swap(begun_);
      begun_.resize(all.size());
      waiting_ = 0;
    }
    for (Begun& one : all) {
      if (one.has) one.done(why, {});
    }
  }
  // Records that a rank has ended the engine.
  void NoteEnd() {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ended_ = true;
    changed_.notify_all();
  }
  void AwaitEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_ended_; });
  }
  // Damages the bytes that a rank receives in this exchange.  The first exchange has number 1.
  void Damages(int exchange, int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    damaged_exchange_ = exchange;
    damaged_rank_ = rank;
  }
  void Shortens() {
    std::lock_guard<std::mutex> lock(mutex_);
    shortened_ = true;
  }
  // Returns the number of ranks that have started the next exchange.
  int Waiting() {
    std::lock_guard<std::mutex> lock(mutex_);
    return waiting_;
  }
  int Exchanges() {
    std::lock_guard<std::mutex> lock(mutex_);
    return exchanges_;
  }
  void AwaitWaiting(int ranks) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, ranks] { return waiting_ == ranks; });
  }
  void AwaitExchanges(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, count] { return exchanges_ >= count; });
  }

 private:
  struct Begun {
    bool has = false;
    ascpipe::Parcel parcel;
    ascpipe::Transport::Done done;
  };

  static ascpipe::Parcel Of(const std::vector<Begun>& all, std::size_t to) {
    ascpipe::Parcel came;
    came.bytes = std::make_shared<std::vector<std::uint8_t>>();
    for (const Begun& from : all) {
      std::int64_t begin = 0;
      for (std::size_t before = 0; before < to; ++before) begin += from.parcel.sizes[before];
      const std::uint8_t* const bytes = from.parcel.bytes->data() + begin;
      came.bytes->insert(came.bytes->end(), bytes, bytes + from.parcel.sizes[to]);
      came.sizes.push_back(from.parcel.sizes[to]);
    }
    return came;
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Begun> begun_;
  int waiting_ = 0;
  int exchanges_ = 0;
  ascpipe::CoreStatus ended_;
  int damaged_exchange_ = -1, damaged_rank_ = -1;
  bool shortened_ = false, is_ended_ = false;
};

class RankTransport : public ascpipe::Transport {
 public:
  RankTransport(std::shared_ptr<RankMeeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  void Start(ascpipe::Parcel parcel, Done done) override { meeting_->Start(rank_, std::move(parcel), std::move(done)); }
  void End() override { meeting_->NoteEnd(); }

 private:
  const std::shared_ptr<RankMeeting> meeting_;
  const int rank_;
};

#endif  // ASCPIPE_TESTS_CPP_RANK_TRANSPORT_H_
