#include "bridge/session_mark.h"

#include <atomic>

#include "bridge/compatibility.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ascpipe {

namespace {

// The mark of a session is a number instead of an address, because a new session may reuse the memory of a closed
// session.
class SessionMark : public tensorflow::ResourceBase {
 public:
  SessionMark() : number_(next_.fetch_add(1)) {}
  tensorflow::int64 number() const { return number_; }
  std::string DebugString() const override { return "ascpipe session"; }

 private:
  static std::atomic<tensorflow::int64> next_;
  const tensorflow::int64 number_;
};

std::atomic<tensorflow::int64> SessionMark::next_{1};

}  // namespace

tensorflow::Status SessionNumber(tensorflow::OpKernelContext* ctx, tensorflow::int64* number) {
  tensorflow::ResourceMgr* manager = ctx->resource_manager();
  SessionMark* mark = nullptr;
  TF_RETURN_IF_ERROR(manager->LookupOrCreate<SessionMark>(manager->default_container(), "ascpipe_session", &mark,
                                                          [](SessionMark** made) {
                                                            *made = new SessionMark;
                                                            return OkStatus();
                                                          }));
  tensorflow::core::ScopedUnref release(mark);
  *number = mark->number();
  return OkStatus();
}

}  // namespace ascpipe
