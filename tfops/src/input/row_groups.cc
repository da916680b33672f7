#include "input/row_groups.h"

#include <algorithm>
#include <utility>

#include "core/core_status.h"
#include "core/splitmix.h"
#include "input/permutation.h"

namespace ascpipe {

namespace {

// Returns the seed for the order of the rows of a row group, or for the order of row groups if `group` is -1. Row group
// 0 uses the seed of the run.
std::uint64_t SeedOfGroup(std::uint64_t seed, std::int64_t group) {
  return group == 0 ? seed : Mix(seed + kGolden * static_cast<std::uint64_t>(group));
}

}  // namespace

RowGroups::RowGroups(std::vector<ParquetFile> files, std::vector<std::string> columns, bool uses_threads)
    : files_(std::move(files)), columns_(std::move(columns)), uses_threads_(uses_threads) {
  for (const std::string& column : columns_) names_.push_back(column.c_str());
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const std::vector<std::int64_t>& rows = files_[file].rows;
    for (std::size_t number = 0; number < rows.size(); ++number) {
      if (rows[number] < 1) continue;
      groups_.push_back({file, static_cast<std::int64_t>(number), rows_, rows[number]});
      rows_ += rows[number];
    }
  }
}

RowGroupArguments RowGroups::ArgumentsOf(std::size_t group) const {
  const Group& of = groups_[group];
  const ParquetFile& file = files_[of.file];
  RowGroupArguments arguments = {};
  arguments.path = file.path.c_str();
  arguments.bytes = file.stamp.bytes;
  arguments.modified_ns = file.stamp.modified_ns;
  arguments.group = of.number;
  arguments.rows = of.rows;
  arguments.columns_count = static_cast<std::int64_t>(names_.size());
  arguments.columns = names_.data();
  arguments.uses_threads = uses_threads_ ? 1 : 0;
  return arguments;
}

std::string RowGroups::Describe(std::int64_t row) const {
  const auto is_before = [](std::int64_t number, const Group& group) { return number < group.first; };
  const Group& group = *(std::upper_bound(groups_.begin(), groups_.end(), row, is_before) - 1);
  const ParquetFile& file = files_[group.file];
  std::int64_t number = row - group.first;
  for (std::int64_t i = 0; i < group.number; ++i) number += file.rows[static_cast<std::size_t>(i)];
  return Text("record ", number, " of ", file.path, " (row ", row - group.first, " of row group ", group.number, ")");
}

RowOrder::RowOrder(const RowGroups& groups, const BatchPlanArguments& plan, std::int64_t epoch)
    : seed_(plan.seed), shuffles_(plan.shuffles != 0), epoch_(epoch) {
  const std::size_t count = groups.groups().size();
  const Permutation permutation(SeedOfGroup(seed_, -1), static_cast<std::uint64_t>(epoch),
                                static_cast<std::int64_t>(std::max<std::size_t>(count, 1)));
  std::int64_t first = 0;
  for (std::size_t place = 0; place < count; ++place) {
    const auto at = static_cast<std::int64_t>(place);
    order_.push_back(shuffles_ ? static_cast<std::size_t>(permutation.At(at)) : place);
    firsts_.push_back(first);
    first += groups.groups()[order_.back()].rows;
  }
  firsts_.push_back(first);
}

std::size_t RowOrder::PlaceOf(std::int64_t position) const {
  return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), position) - firsts_.begin()) - 1;
}

void RowOrder::RowsOf(std::size_t place, std::int64_t begin, std::int64_t end, std::vector<std::int64_t>* rows) const {
  const std::int64_t first = firsts_[place], count = firsts_[place + 1] - first;
  const Permutation permutation(SeedOfGroup(seed_, static_cast<std::int64_t>(order_[place])),
                                static_cast<std::uint64_t>(epoch_), count);
  for (std::int64_t at = begin - first; at < end - first; ++at) rows->push_back(shuffles_ ? permutation.At(at) : at);
}

}  // namespace ascpipe
