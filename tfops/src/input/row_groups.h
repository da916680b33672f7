// The rows of several Parquet files as one sequence, and their order in an epoch.
#ifndef ASCPIPE_INPUT_ROW_GROUPS_H_
#define ASCPIPE_INPUT_ROW_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/calls.gen.h"
#include "input/data_file.h"

namespace ascpipe {

// A Parquet file, and the number of rows of each row group from the file's footer.
struct ParquetFile {
  std::string path;
  FileStamp stamp;  // stamp of the file when the footer was read
  std::vector<std::int64_t> rows;
};

// Row groups and rows are numbered consecutively over all files, in the order of the files. A row is a record.
class RowGroups {
 public:
  struct Group {
    std::size_t file;
    std::int64_t number;  // number in the file
    std::int64_t first;   // number of the first row
    std::int64_t rows;
  };

  // `columns` are the names of the columns to read. If `uses_threads` is true, several threads decode a row group.
  RowGroups(std::vector<ParquetFile> files, std::vector<std::string> columns, bool uses_threads);

  std::int64_t rows() const { return rows_; }
  const std::vector<Group>& groups() const { return groups_; }  // without empty row groups
  const std::vector<std::string>& columns() const { return columns_; }

  // Returns the arguments of RowGroup::Load. The RowGroups object owns the memory to which the arguments point.
  RowGroupArguments ArgumentsOf(std::size_t group) const;

  // Returns the file and the position of a row as text, for messages.
  std::string Describe(std::int64_t row) const;

 private:
  const std::vector<ParquetFile> files_;
  const std::vector<std::string> columns_;
  const bool uses_threads_;
  std::vector<const char*> names_;  // C strings of columns_
  std::vector<Group> groups_;
  std::int64_t rows_ = 0;
};

// Order of the rows of an epoch. If the plan shuffles, the row groups and the rows of each row group are permuted. The
// order depends only on the arguments.
class RowOrder {
 public:
  RowOrder(const RowGroups& groups, const BatchPlanArguments& plan, std::int64_t epoch);

  std::int64_t epoch() const { return epoch_; }
  // Returns the number of the row group that is read at index `place` of the epoch.
  std::size_t GroupAt(std::size_t place) const { return order_[place]; }
  // Returns the index `place` of the row group that contains a position in the epoch's sequence.
  std::size_t PlaceOf(std::int64_t position) const;
  // Returns the position after the last row of the row group at index `place`.
  std::int64_t EndOf(std::size_t place) const { return firsts_[place + 1]; }
  // Writes the rows at the positions [begin, end) of a row group. Rows are counted from the first row of the row group.
  void RowsOf(std::size_t place, std::int64_t begin, std::int64_t end, std::vector<std::int64_t>* rows) const;

 private:
  const std::uint64_t seed_;
  const bool shuffles_;
  const std::int64_t epoch_;
  std::vector<std::size_t> order_;    // numbers of the row groups
  std::vector<std::int64_t> firsts_;  // position of the first row of each row group in this order, and of the end
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_ROW_GROUPS_H_
