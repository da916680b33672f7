#include "bridge/instance.h"

#include <mutex>
#include <utility>

#include "bridge/compatibility.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ascpipe {

namespace {

// Resource of a session. TensorFlow destroys the resource with the session.
class RowsOfSession : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "ascpipe rows that a session reads"; }

  void Set(int table, std::shared_ptr<const FixedRows> rows) {
    std::lock_guard<std::mutex> lock(mutex_);
    tables_[table].swap(rows);  // the old rows are freed after the lock is released
  }

  std::shared_ptr<const FixedRows> Get(int table) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tables_.find(table);
    return found == tables_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const FixedRows>> tables_;
};

tensorflow::Status Find(tensorflow::OpKernelContext* ctx, RowsOfSession** rows) {
  tensorflow::ResourceMgr* manager = ctx->resource_manager();
  return manager->LookupOrCreate<RowsOfSession>(manager->default_container(), "ascpipe_rows", rows,
                                                [](RowsOfSession** made) {
                                                  *made = new RowsOfSession;
                                                  return OkStatus();
                                                });
}

}  // namespace

Given<Instance>& Instances() {
  static Given<Instance>* const instances = new Given<Instance>("instance");
  return *instances;
}

tensorflow::Status ReadInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows> rows) {
  RowsOfSession* of = nullptr;
  TF_RETURN_IF_ERROR(Find(ctx, &of));
  tensorflow::core::ScopedUnref release(of);
  of->Set(table, std::move(rows));
  return OkStatus();
}

tensorflow::Status RowsInstead(tensorflow::OpKernelContext* ctx, int table, std::shared_ptr<const FixedRows>* rows) {
  RowsOfSession* of = nullptr;
  TF_RETURN_IF_ERROR(Find(ctx, &of));
  tensorflow::core::ScopedUnref release(of);
  *rows = of->Get(table);
  return OkStatus();
}

}  // namespace ascpipe
