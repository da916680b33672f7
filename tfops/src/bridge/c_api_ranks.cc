// C interface for programs with several ranks (ascpipe/tf/running/native.py). Rank 0 sends requests, and the other
// ranks answer.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bridge/c_api.h"
#include "bridge/pipeline.h"
#include "bridge/thread_wait.h"

namespace {

using ascpipe::Answer;
using ascpipe::Asking;
using ascpipe::AskPhase;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::Pipeline;
using ascpipe::Ranks;
using ascpipe::Text;

class AskWait : public ascpipe::ThreadWait {
 public:
  explicit AskWait(std::shared_ptr<const Asking> asking) : asking_(std::move(asking)) {
    waits_for = ascpipe::layout::kWaitRanks;
    table_name = "of a save or change";
  }
  bool Poll(CoreStatus* status) override { return asking_->IsOver(status); }

 private:
  const std::shared_ptr<const Asking> asking_;
};

// Calls `work` with the ranks of the pipeline, and returns the status of `work`.
template <typename Work>
int OnRanks(char* err, int err_bytes, const Work& work) {
  const std::shared_ptr<Pipeline> pipeline = ascpipe::OwnedPipeline();
  if (pipeline == nullptr || pipeline->ranks() == nullptr) {
    return Answer(Error(Code::kCancelled, "no pipeline of several ranks runs"), err, err_bytes);
  }
  return Answer(work(pipeline.get(), pipeline->ranks()), err, err_bytes);
}

CoreStatus Await(Pipeline* pipeline, std::shared_ptr<const Asking> asking) {
  return ascpipe::ThreadWait::Sleep(pipeline->waiter(), std::make_shared<AskWait>(std::move(asking)));
}

CoreStatus Copy(const std::string& text, char* out, int out_bytes) {
  if (static_cast<int>(text.size()) >= out_bytes) {
    return Error(Code::kResourceExhausted, "a text of ", text.size(), " bytes does not fit into ", out_bytes);
  }
  std::memcpy(out, text.c_str(), text.size() + 1);
  return CoreStatus();
}

}  // namespace

// Sends a request of rank 0 to the other ranks and waits until all ranks have received the request. `changes` is 1 if
// the request changes tables.
ASC_EXPORT int asc_ranks_ask(int changes, const char* text, std::int64_t* number, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline* pipeline, Ranks* ranks) {
    const std::int64_t asked = ranks->NewAsk();
    const std::shared_ptr<Asking> asking = ranks->Ask(asked, changes != 0 ? AskPhase::kChange : AskPhase::kSave, text);
    const CoreStatus status = Await(pipeline, asking);
    // After a failure, other ranks may still receive the request.
    if (!status.ok()) ranks->Abandon(asked, changes != 0, asking.get());
    if (status.ok()) *number = asked;
    return status;
  });
}

// Executes an exchange in which rank 0 collects the answers of the other ranks. Writes one line to `out` for each rank
// except rank 0. Each line contains the answer of one rank. If a rank has not answered, its line contains "?", the
// milliseconds since the rank's last progress, a blank, and the rank's state.
ASC_EXPORT int asc_ranks_collect(std::int64_t number, char* out, int out_bytes, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline* pipeline, Ranks* ranks) {
    const CoreStatus status = Await(pipeline, ranks->Ask(number, AskPhase::kCollect, ""));
    std::vector<std::string> answers;
    // Take the answers even after a failure, because an answer may have caused the failure.
    if (!ranks->TakeAnswers(number, &answers) && !status.ok()) return status;
    std::string text;
    for (std::size_t rank = 1; rank < answers.size(); ++rank) {
      const int of = static_cast<int>(rank);
      text += (!answers[rank].empty() ? answers[rank]
                                      : Text("?", static_cast<std::int64_t>(ranks->peers().SilenceOf(of) * 1000.0), " ",
                                             ranks->peers().StateOf(of))) +
              "\n";
    }
    return Copy(text, out, out_bytes);
  });
}

// Sends the result of a request to the other ranks without waiting for them. `differs` is 1 if the request changes
// tables but rank 0 has not changed its own tables. If `differs` is 1, all ranks must stop training.
ASC_EXPORT int asc_ranks_tell(std::int64_t number, const char* text, int differs, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    if (differs != 0) ranks->peers().NoteChange(~static_cast<std::uint64_t>(number));
    ranks->DropAnswers(number);
    ranks->Ask(number, AskPhase::kEnd, text);
    return CoreStatus();
  });
}

// Receives a request of rank 0, or the result of a request. Only ranks other than rank 0 call asc_ranks_asked. *phase
// receives an AskPhase, or -1 if no request arrives within the timeout.
ASC_EXPORT int asc_ranks_asked(int timeout_ms, std::int64_t* number, std::int64_t* phase, char* out, int out_bytes,
                               char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ascpipe::PeerAsk ask;
    *phase = -1;
    if (!ranks->asks().Take(timeout_ms, &ask)) return CoreStatus();
    *phase = static_cast<std::int64_t>(ask.phase);
    *number = ask.number;
    return Copy(ask.text, out, out_bytes);
  });
}

// Takes part in an exchange as an idle rank. Only ranks other than rank 0 call asc_ranks_look. If `begins` is 0, the
// call continues the exchange of the previous call. *seen receives the activity of rank 0: 1 for a request, 2 for a
// busy rank, and 0 for another activity. *seen is -1 if the exchange does not end within the timeout. *silence_ms is
// the time since any rank last made progress with a request of rank 0.
ASC_EXPORT int asc_ranks_look(int begins, int timeout_ms, std::int64_t* seen, std::int64_t* silence_ms, char* err,
                              int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    const std::shared_ptr<const Asking> look = begins != 0 ? ranks->BeginLook() : ranks->look();
    *seen = -1;
    CoreStatus status;
    if (look != nullptr && look->IsOver(timeout_ms, &status)) *seen = look->is_asked() ? 1 : look->is_busy() ? 2 : 0;
    *silence_ms = static_cast<std::int64_t>(ranks->peers().Silence() * 1000.0);
    return status;
  });
}

// Answers a request with one line. Rank 0 receives the line in the next exchange.
ASC_EXPORT int asc_ranks_answer(std::int64_t number, const char* text, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->Answer(number, text);
    return CoreStatus();
  });
}

// Marks a request of rank 0 as finished on this rank. `changed` is 1 if this rank has changed its tables for the
// request.
ASC_EXPORT int asc_ranks_resume(std::int64_t number, int changed, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    if (changed != 0) ranks->peers().NoteChange(static_cast<std::uint64_t>(number));
    ranks->peers().Resume();
    return CoreStatus();
  });
}

// Counts the CPU time of the calling thread as progress with a request of rank 0, until asc_ranks_end_work(number) is
// called.
ASC_EXPORT int asc_ranks_begin_work(std::int64_t* number, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    *number = ranks->work().Begin();
    return CoreStatus();
  });
}

ASC_EXPORT int asc_ranks_end_work(std::int64_t* number, char* err, int err_bytes) {
  const std::int64_t ended = ascpipe::TakeNumber(number);
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->work().End(static_cast<int>(ended));
    return CoreStatus();
  });
}

// Announces that this rank exits, and waits until the other ranks exit, too. `cause` is the error of a program that
// fails, or "". This rank serves requests of rank 0 while it waits.
ASC_EXPORT int asc_ranks_leave(const char* cause, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->Leave(cause);
    return CoreStatus();
  });
}
