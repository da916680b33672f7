// Decodes row groups of Parquet files by a function that Python registers.
#ifndef ASCPIPE_INPUT_ROW_GROUP_LOADER_H_
#define ASCPIPE_INPUT_ROW_GROUP_LOADER_H_

#include <memory>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "input/arrow_column.h"

namespace ascpipe {

// Decodes a row group into arguments->array and arguments->schema, which describe a struct with the columns. Returns 0.
// In case of an error, writes a text to arguments->text and returns the number of its code, for example 330.
using LoadRowGroup = int (*)(const RowGroupArguments* arguments);

// Registers the function. Null ends the use of Arrow in this process. The call then waits, at most a minute, until no
// thread executes the function or releases memory of Arrow. Later calls of the function return an error. Python passes
// null before the interpreter ends, because a thread that enters an ended interpreter aborts the process.
void SetRowGroupLoader(LoadRowGroup load);

// A decoded row group, which owns the memory of its columns.
class RowGroup {
 public:
  // Calls the function. The members `array`, `schema`, `text` and `text_bytes` of the arguments are set here.
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
