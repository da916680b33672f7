// What ascpipe/tf/running/native.py calls where there are several ranks: rank 0 asks, the others answer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
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
    return Await(pipeline, ranks->Ask(*number, changes != 0 ? AskPhase::kChange : AskPhase::kSave, text));
  });
}

// Makes an exchange in which the others say what they have answered: a line for each, from rank 1 on.  Empty: not all
// have answered yet.
ASC_EXPORT int asc_ranks_collect(std::int64_t number, char* out, int out_bytes, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline* pipeline, Ranks* ranks) {
    const CoreStatus status = Await(pipeline, ranks->Ask(number, AskPhase::kCollect, ""));
    std::vector<std::string> answers;
    // Also of a failure: that ranks differ is what follows from an answer.
    if (!ranks->TakeAnswers(number, &answers)) return status.ok() ? Copy("", out, out_bytes) : status;
    std::string text;
    for (std::size_t rank = 1; rank < answers.size(); ++rank) text += answers[rank] + "\n";
    return Copy(text, out, out_bytes);
  });
}

// Tells the others how it has ended; does not wait.  `differs`: 1 if tables change and this rank has not changed its
// own, so that no rank trains on.
ASC_EXPORT int asc_ranks_tell(std::int64_t number, const char* text, int differs, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    if (differs != 0) ranks->peers().NoteChange(~static_cast<std::uint64_t>(number));
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
    *number = std::strtoll(ask.text.c_str(), nullptr, 10);
    return Copy(ask.text.substr(std::min(ask.text.size(), ask.text.find(' ') + 1)), out, out_bytes);
  });
}

// On the other ranks: an exchange in which this one has nothing to do; `begins` 0: goes on with the last one.  *seen: 1
// if rank 0 asks for something in it, 0 if it does something else, -1 if neither for so long.
ASC_EXPORT int asc_ranks_look(int begins, int timeout_ms, std::int64_t* seen, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    const std::shared_ptr<const Asking> look = begins != 0 ? ranks->BeginLook() : ranks->look();
    *seen = -1;
    CoreStatus status;
    if (look != nullptr && look->IsOver(timeout_ms, &status)) *seen = look->is_asked() ? 1 : 0;
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

// Says that this rank ends, and why if its program fails ("" = it does not), and waits for the others; until then it does
// what rank 0 asks for.
ASC_EXPORT int asc_ranks_leave(const char* cause, char* err, int err_bytes) {
  return OnRanks(err, err_bytes, [=](Pipeline*, Ranks* ranks) {
    ranks->Leave(cause);
    return CoreStatus();
  });
}
