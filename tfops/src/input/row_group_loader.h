// Decodes row groups of Parquet files with a function that Python registers.
#ifndef ASCPIPE_INPUT_ROW_GROUP_LOADER_H_
#define ASCPIPE_INPUT_ROW_GROUP_LOADER_H_

#include <memory>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "input/arrow_column.h"

namespace ascpipe {

// Decodes a row group into arguments->array and arguments->schema, which describe a struct with the columns. Returns 0
// on success. On error, writes a message to arguments->text and returns the number of the error code, for example 330.
using LoadRowGroup = int (*)(const RowGroupArguments* arguments);

// Registers the function that decodes row groups. If `load` is null, SetRowGroupLoader waits up to one minute until no
// thread executes the registered function or releases Arrow's memory. After that, this process no longer uses Arrow,
// and RowGroup::Load returns an error. Python passes null before the interpreter exits, because a thread that enters a
// finalized interpreter aborts the process.
void SetRowGroupLoader(LoadRowGroup load);

// A decoded row group, which owns the memory of its columns.
class RowGroup {
 public:
  // Calls the registered function. Load sets the members `array`, `schema`, `text` and `text_bytes` of the arguments.
  static CoreStatus Load(RowGroupArguments arguments, std::shared_ptr<const RowGroup>* group);
  ~RowGroup();
  RowGroup(const RowGroup&) = delete;
  RowGroup& operator=(const RowGroup&) = delete;

  const ArrowColumn& column(std::size_t number) const { return columns_[number]; }

 private:
  RowGroup() : array_(), schema_() {}
  CoreStatus Open(const RowGroupArguments& arguments);

  ArrowArray array_;
  ArrowSchema schema_;
  std::vector<ArrowColumn> columns_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_ROW_GROUP_LOADER_H_
