// Ranks that are threads of one process, and the verdicts that they receive.
#ifndef ASCPIPE_TESTS_CPP_PEER_RANKS_H_
#define ASCPIPE_TESTS_CPP_PEER_RANKS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "peers/peers.h"
#include "rank_transport.h"

namespace peer_ranks {

using namespace ascpipe;

constexpr double kLong = 30.0;
constexpr double kShort = 0.05;

// Keys that contain the number of their rank.  The object also records the received keys.
class TestKeys : public PeerKeys {
 public:
  explicit TestKeys(int rank) : mine_(Text("keys of ", rank)) {}

  void Pack(const PeerHeader&, std::vector<std::vector<Piece>>* to, std::shared_ptr<const void>*) override {
    for (std::vector<Piece>& pieces : *to) {
      pieces.push_back({mine_.data(), static_cast<std::int64_t>(mine_.size())});
    }
  }
  CoreStatus Unpack(const Received& keys) override {
    for (std::size_t rank = 0; rank < keys.from.size(); ++rank) {
      const Piece& piece = keys.from[rank];
      CHECK_EQ(std::string(static_cast<const char*>(piece.data), static_cast<std::size_t>(piece.bytes)),
               Text("keys of ", rank));
    }
    return refusal;
  }
  bool IsKnown(const PeerHeader& gate) const override { return gate.ticket == known; }

  CoreStatus refusal;
  std::atomic<std::int64_t> known{-1};

 private:
  const std::string mine_;
};

struct Told {
  PeerVerdict verdict;
  std::vector<std::string> rows;  // by rank
};

using Future = std::future<Told>;

inline PeerHeader Header(PeerKind kind, int stream = 1, std::int64_t ticket = 1) {
  PeerHeader header;
  header.kind = kind;
  if (header.has_batch()) {
    header.stream = stream;
    header.run = 1;
    header.ticket = ticket;
  }
  return header;
}

// Ranks that exchange with each other.
class Ranks {
 public:
  explicit Ranks(int count, double timeout_s = kLong) : Ranks(count, std::vector<double>(count, timeout_s)) {}
  Ranks(int count, std::vector<std::shared_ptr<SpanRing<layout::ExchangeSpan>>> spans)
      : Ranks(count, std::vector<double>(count, kLong), {}, 1e6, std::move(spans)) {}
  Ranks(int count, const std::vector<double>& timeouts, std::vector<std::string> signatures = {},
        double idle_after_s = 1e6, std::vector<std::shared_ptr<SpanRing<layout::ExchangeSpan>>> spans = {},
        double warn_after_s = 1e6)
      : meeting(std::make_shared<RankMeeting>(count)), work(static_cast<std::size_t>(count)) {
    signatures.resize(static_cast<std::size_t>(count), "table user\ndim 8");
    figures.resize(static_cast<std::size_t>(count));
    pauses_.resize(static_cast<std::size_t>(count));
    spans.resize(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank) {
      keys.emplace_back(new TestKeys(rank));
      Peers::Settings settings;
      settings.wait_timeout_s = timeouts[static_cast<std::size_t>(rank)];
      settings.signature = signatures[static_cast<std::size_t>(rank)];
      settings.idle_after_s = idle_after_s;
      settings.figures = &figures[static_cast<std::size_t>(rank)];
      settings.spans = spans[static_cast<std::size_t>(rank)];
      settings.warn_after_s = warn_after_s;
      settings.end_after_s = 0.05;
      settings.has_steps = [this] { return has_steps.load(); };
      settings.work = [this, rank] { return work[static_cast<std::size_t>(rank)].load(); };
      settings.on_ask = [this, rank](PeerAsk ask) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (ask.phase == AskPhase::kSave || ask.phase == AskPhase::kChange) ++pauses_[static_cast<std::size_t>(rank)];
        asked_.push_back({rank, std::move(ask)});
        changed_.notify_all();
      };
      peers.emplace_back(
          new Peers(std::unique_ptr<Transport>(new RankTransport(meeting, rank)), keys.back().get(), settings));
    }
  }
  // The destructor destroys the Peers of all ranks.
  ~Ranks() {
    for (auto& one : peers) one.reset();
  }

  Future Send(int rank, PeerRequest request) {
    const auto told = std::make_shared<std::promise<Told>>();
    request.done = [told](const PeerVerdict& verdict, const Received& rows) {
      Told what;
      what.verdict = verdict;
      for (const Piece& piece : rows.from) {
        what.rows.emplace_back(static_cast<const char*>(piece.data), static_cast<std::size_t>(piece.bytes));
      }
      told->set_value(std::move(what));
    };
    peers[static_cast<std::size_t>(rank)]->Exchange(std::move(request));
    return told->get_future();
  }
  Future Send(int rank, const PeerHeader& header) {
    PeerRequest request;
    request.header = header;
    return Send(rank, std::move(request));
  }
  Future Send(int rank, PeerKind kind, int stream = 1, std::int64_t ticket = 1) {
    return Send(rank, Header(kind, stream, ticket));
  }
  // Each rank sends the same header.  Returns the verdict, which must be equal on all ranks.
  VerdictKind All(const PeerHeader& header) {
    std::vector<Future> told;
    for (std::size_t rank = 0; rank < peers.size(); ++rank) told.push_back(Send(static_cast<int>(rank), header));
    const VerdictKind first = told[0].get().verdict.kind;
    for (std::size_t rank = 1; rank < told.size(); ++rank) CHECK(told[rank].get().verdict.kind == first);
    return first;
  }

  // Returns the next question that a rank has received.
  std::pair<int, PeerAsk> Asked() {
    std::unique_lock<std::mutex> lock(mutex_);
    CHECK(changed_.wait_for(lock, std::chrono::seconds(30), [this] { return !asked_.empty(); }));
    std::pair<int, PeerAsk> first = std::move(asked_.front());
    asked_.pop_front();
    return first;
  }
  // Reports that a rank has done its part of a question.  Waits until the rank has received the question, because rank
  // 0 may get its verdict earlier.
  void Resume(int rank) {
    int* const pauses = &pauses_[static_cast<std::size_t>(rank)];
    {
      std::unique_lock<std::mutex> lock(mutex_);
      CHECK(changed_.wait_for(lock, std::chrono::seconds(30), [pauses] { return *pauses > 0; }));
      --*pauses;
    }
    peers[static_cast<std::size_t>(rank)]->Resume();
  }
  // Sends a question of rank 0 to the other ranks.
  Future Ask(AskPhase phase, const std::string& text = "", std::int64_t number = 1) {
    PeerRequest request;
    request.header.kind = PeerKind::kAsk;
    request.header.phase = phase;
    request.header.ticket = number;
    const auto kept = std::make_shared<std::string>(text);
    request.rows.assign(peers.size(), {{kept->data(), static_cast<std::int64_t>(kept->size())}});
    request.keeps = kept;
    return Send(0, std::move(request));
  }

  std::shared_ptr<RankMeeting> meeting;
  std::vector<std::unique_ptr<TestKeys>> keys;
  std::vector<layout::Exchanges> figures;       // by rank
  std::vector<std::atomic<std::int64_t>> work;  // by rank
  std::atomic<bool> has_steps{false};           // for all ranks
  std::vector<std::unique_ptr<Peers>> peers;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int, PeerAsk>> asked_;
  std::vector<int> pauses_;  // by rank: number of questions after which the rank has not resumed
};

inline bool Is(Future* told, VerdictKind kind) { return told->get().verdict.kind == kind; }
inline bool Is(Future told, VerdictKind kind) { return Is(&told, kind); }

using check::Has;

}  // namespace peer_ranks

#endif  // ASCPIPE_TESTS_CPP_PEER_RANKS_H_
