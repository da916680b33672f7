// What ascpipe/tf/running/native.py calls where there are several ranks: rank 0 asks, the others answer.
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

// Answers by what `work` returns for the ranks of the pipeline.
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

// Rank 0 asks the other ranks, and waits until they have heard it: they do it now.  `changes`: 1 if tables change.
ASC_EXPORT int asc_ranks_ask(int changes, const char* text, std::int64_t* number, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline* pipeline, Ranks* ranks) {
    *number = ranks->NewAsk();
    const std::shared_ptr<Asking> asking =
        ranks->Ask(*number, changes != 0 ? AskPhase::kChange : AskPhase::kSave, text);
    const CoreStatus status = Await(pipeline, asking);
    if (!status.ok()) ranks->Abandon(*number, changes != 0, asking.get());  // they may hear it after this
    return status;
  });
}

// Makes an exchange that collects answers.  Writes a line for each rank from 1 on: the answer, or "?", the milliseconds
// since the rank last made progress, a blank, and the state of the rank.
ASC_EXPORT int asc_ranks_collect(std::int64_t number, char* out, int out_bytes, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline* pipeline, Ranks* ranks) {
    const CoreStatus status = Await(pipeline, ranks->Ask(number, AskPhase::kCollect, ""));
    std::vector<std::string> answers;
    // Also of a failure: that ranks differ is what follows from an answer.
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

// Tells the others how it has ended; does not wait.  `differs`: 1 if tables change and this rank has not changed its
// own, so that no rank trains on.
ASC_EXPORT int asc_ranks_tell(std::int64_t number, const char* text, int differs, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    if (differs != 0) ranks->peers().NoteChange(~static_cast<std::uint64_t>(number));
    ranks->DropAnswers(number);
    ranks->Ask(number, AskPhase::kEnd, text);
    return CoreStatus();
  });
}

// On the other ranks: what rank 0 asks for, or how it has ended (*phase is an AskPhase); -1: nothing for so long.
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

// On the other ranks: an exchange in which this one has nothing to do; `begins` 0: goes on with the last one.  *seen: 1
// if rank 0 asks for something in it, 0 if it does something else, 2 if it is busy, -1 after the timeout.
// *silence_ms: how long no rank has made progress with a question of rank 0.
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

// Answers in one line; rank 0 hears it with the next exchange.
ASC_EXPORT int asc_ranks_answer(std::int64_t number, const char* text, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->Answer(number, text);
    return CoreStatus();
  });
}

// Others need not wait any more for what rank 0 asked for.  `changed`: 1 if this rank has changed its tables for it.
ASC_EXPORT int asc_ranks_resume(std::int64_t number, int changed, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    if (changed != 0) ranks->peers().NoteChange(static_cast<std::uint64_t>(number));
    ranks->peers().Resume();
    return CoreStatus();
  });
}

// Counts the processor time of the calling thread as progress with a question of rank 0, until
// asc_ranks_end_work(*number).
ASC_EXPORT int asc_ranks_begin_work(std::int64_t* number, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    *number = ranks->work().Begin();
    return CoreStatus();
  });
}

ASC_EXPORT int asc_ranks_end_work(std::int64_t number, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->work().End(static_cast<int>(number));
    return CoreStatus();
  });
}

// Says that this rank ends, and why if its program fails ("" = it does not), and waits for the others; until then it
// does what rank 0 asks for.
ASC_EXPORT int asc_ranks_leave(const char* cause, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->Leave(cause);
    return CoreStatus();
  });
}
