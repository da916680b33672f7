// A table file that a session has opened. All lookups of the table in a session share the file.
#ifndef ASCPIPE_BRIDGE_SERVED_TABLE_H_
#define ASCPIPE_BRIDGE_SERVED_TABLE_H_

#include <memory>
#include <string>
#include <utility>

#include "core/table_file.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ascpipe {

class ServedTable : public tensorflow::ResourceBase {
 public:
  explicit ServedTable(std::unique_ptr<TableFile> file) : file_(std::move(file)) {}

  const TableFile& file() const { return *file_; }
  tensorflow::string DebugString() const override {
    return Text("served table of ", file_->row_count(), " rows of ", file_->dim());
  }

 private:
  const std::unique_ptr<TableFile> file_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SERVED_TABLE_H_
