#include "bridge/row_columns.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "bridge/status.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

struct RowColumns::Sparse {
  Tensor indices, values, shape;
};

RowColumns::RowColumns(ExampleFeatures features) : features_(std::move(features)) {
  for (std::size_t i = 0; i < features_.config.dense.size(); ++i) {
    const Tensor& value = features_.config.dense[i].default_value;
    const std::int64_t buckets = features_.BucketsOf(i);
    const bool is_hashed = buckets != ExampleFeatures::kNotHashed;
    defaults_.push_back(is_hashed ? Hashed(value, buckets, tensorflow::cpu_allocator()) : value);
  }
}

std::string RowColumns::NameOf(std::size_t feature) const {
  const auto& config = features_.config;
  return is_dense(feature) ? std::string(config.dense[feature].feature_name)
                           : std::string(config.sparse[feature - config.dense.size()].feature_name);
}

tensorflow::DataType RowColumns::TypeOf(std::size_t feature) const {
  const auto& config = features_.config;
  return is_dense(feature) ? config.dense[feature].dtype : config.sparse[feature - config.dense.size()].dtype;
}

std::int64_t RowColumns::CountOf(std::size_t feature) const {
  return static_cast<std::int64_t>(features_.config.dense[feature].elements_per_stride);
}

std::vector<std::string> RowColumns::names() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < features_.config.dense.size() + features_.config.sparse.size(); ++i) {
    all.push_back(NameOf(i));
  }
  return all;
}

Tensor RowColumns::NewValues(std::size_t feature, const TensorShape& shape, tensorflow::Allocator* allocator) const {
  const bool is_hashed = features_.BucketsOf(feature) != ExampleFeatures::kNotHashed;
  return Tensor(allocator, is_hashed ? tensorflow::DT_INT64 : TypeOf(feature), shape);
}

std::string RowColumns::WhyUnfit(std::size_t feature, const ArrowColumn& column, std::int64_t row) const {
  const std::string name = NameOf(feature);
  if (column.IsNull(row)) {
    const bool fits = !is_dense(feature) || defaults_[feature].NumElements() > 0;
    return fits ? std::string() : Text("column '", name, "' is null, and the feature has no default value");
  }
  const ArrowRange range = column.RangeOf(row);
  if (is_dense(feature) && range.end - range.begin != CountOf(feature)) {
    return Text("the number of values of column '", name, "' is ", range.end - range.begin, ", and the feature has ",
                CountOf(feature));
  }
  for (std::int64_t at = range.begin; at < range.end; ++at) {
    if (column.values().IsNull(at)) return Text("a value of column '", name, "' is null");
    if (MayExceed(feature, column.values()) && column.values().Exceeds(at)) {
      return Text("a value of column '", name, "' is greater than ", std::numeric_limits<std::int64_t>::max());
    }
  }
  return std::string();
}

Status RowColumns::RemoveUnfit(const BatchParser::OnUnfit& on_unfit, std::vector<RowRun>* rows,
                               std::int64_t* count) const {
  std::size_t record = 0;
  *count = 0;
  for (RowRun& run : *rows) {
    std::vector<std::size_t> to_check;
    for (std::size_t i = 0; i < features_.buckets.size(); ++i) {
      const ArrowColumn& column = run.group->column(i);
      const bool may_differ = column.is_list() && is_dense(i);
      if (may_differ || column.values().has_nulls() || MayExceed(i, column.values())) to_check.push_back(i);
    }
    std::size_t kept = to_check.empty() ? run.rows.size() : 0;
    for (std::size_t at = 0; at < run.rows.size() && !to_check.empty(); ++at) {
      std::string why;
      for (std::size_t i = 0; i < to_check.size() && why.empty(); ++i) {
        why = WhyUnfit(to_check[i], run.group->column(to_check[i]), run.rows[at]);
      }
      if (why.empty()) {
        run.rows[kept++] = run.rows[at];
      } else {
        TF_RETURN_IF_ERROR(on_unfit(record + at, why));
      }
    }
    record += run.rows.size();
    run.rows.resize(kept);
    *count += static_cast<std::int64_t>(kept);
  }
  return OkStatus();
}

Status RowColumns::Convert(std::size_t feature, const ArrowValues& values, const std::vector<std::int64_t>& at,
                           std::int64_t first, Tensor* out) const {
  const auto count = static_cast<std::int64_t>(at.size());
  const std::int64_t buckets = features_.BucketsOf(feature);
  bool fits = false;
  if (buckets != ExampleFeatures::kNotHashed || out->dtype() == tensorflow::DT_STRING) {
    std::vector<ByteRange> strings(at.size());
    fits = values.Gather(at.data(), count, strings.data());
    if (fits && buckets == ExampleFeatures::kNotHashed) {
      CopyStrings(strings.data(), count, out->flat<TensorString>().data() + first);
    } else if (fits) {
      HashStrings(strings.data(), count, buckets, out->flat<tensorflow::int64>().data() + first);
    }
  } else if (out->dtype() == tensorflow::DT_INT64) {
    fits =
        values.Gather(at.data(), count, reinterpret_cast<std::int64_t*>(out->flat<tensorflow::int64>().data()) + first);
  } else {
    fits = values.Gather(at.data(), count, out->flat<float>().data() + first);
  }
  if (fits) return OkStatus();
  return Refuse(kE332, "The column '", NameOf(feature),
                "' has another type than the feature. No batch has its values. Correct the features (`ascpipe data "
                "head` prints the features of the file)");
}

Status RowColumns::GatherDense(std::size_t feature, const std::vector<RowRun>& rows, Tensor* out) const {
  const std::int64_t each = CountOf(feature);
  std::int64_t first = 0;  // first row of the batch
  std::vector<std::int64_t> at;
  for (const RowRun& run : rows) {
    const ArrowColumn& column = run.group->column(feature);
    const std::int64_t here = first;
    first += static_cast<std::int64_t>(run.rows.size());
    if (!column.is_list() && !column.values().has_nulls()) {  // the row number is the position of the row's value
      TF_RETURN_IF_ERROR(Convert(feature, column.values(), run.rows, here, out));
      continue;
    }
    std::vector<std::int64_t> missing;
    at.clear();
    for (std::size_t i = 0; i < run.rows.size(); ++i) {
      const bool is_null = column.IsNull(run.rows[i]);
      if (is_null) missing.push_back(here + static_cast<std::int64_t>(i));
      const std::int64_t begin = is_null ? 0 : column.RangeOf(run.rows[i]).begin;
      for (std::int64_t j = 0; j < each; ++j) at.push_back(is_null ? 0 : begin + j);
    }
    if (missing.size() < run.rows.size()) {
      TF_RETURN_IF_ERROR(Convert(feature, column.values(), at, here * each, out));
    }
    for (const std::int64_t record : missing) CopyDefault(defaults_[feature], record, out);
  }
  return OkStatus();
}

Status RowColumns::GatherSparse(std::size_t feature, const std::vector<RowRun>& rows, tensorflow::Allocator* allocator,
                                Sparse* out) const {
  std::vector<std::vector<std::int64_t>> positions(rows.size());
  std::vector<std::int64_t> counts;  // number of values of each row
  std::int64_t total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ArrowColumn& column = rows[i].group->column(feature);
    for (const std::int64_t row : rows[i].rows) {
      const ArrowRange range = column.IsNull(row) ? ArrowRange{0, 0} : column.RangeOf(row);
      for (std::int64_t at = range.begin; at < range.end; ++at) positions[i].push_back(at);
      counts.push_back(range.end - range.begin);
    }
    total += static_cast<std::int64_t>(positions[i].size());
  }
  out->indices = Tensor(allocator, tensorflow::DT_INT64, TensorShape({total, 2}));
  out->values = NewValues(feature, TensorShape({total}), allocator);
  out->shape = Tensor(allocator, tensorflow::DT_INT64, TensorShape({2}));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TF_RETURN_IF_ERROR(Convert(feature, rows[i].group->column(feature).values(), positions[i], first, &out->values));
    first += static_cast<std::int64_t>(positions[i].size());
  }
  auto* place = out->indices.flat<tensorflow::int64>().data();
  for (std::size_t record = 0; record < counts.size(); ++record) {
    for (std::int64_t i = 0; i < counts[record]; ++i) {
      *place++ = static_cast<std::int64_t>(record);
      *place++ = i;
    }
  }
  auto* const shape = out->shape.flat<tensorflow::int64>().data();
  shape[0] = static_cast<std::int64_t>(counts.size());
  shape[1] = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  return OkStatus();
}

Status RowColumns::Gather(const std::vector<RowRun>& rows, tensorflow::Allocator* allocator,
                          const BatchParser::OnUnfit& on_unfit, std::vector<Tensor>* tensors) const {
  std::vector<RowRun> fit = rows;
  std::int64_t count = 0;
  TF_RETURN_IF_ERROR(RemoveUnfit(on_unfit, &fit, &count));
  const auto& config = features_.config;
  for (std::size_t i = 0; i < config.dense.size(); ++i) {
    TensorShape shape;
    config.dense[i].shape.AsTensorShape(&shape);
    shape.InsertDim(0, count);
    tensors->push_back(NewValues(i, shape, allocator));
    TF_RETURN_IF_ERROR(GatherDense(i, fit, &tensors->back()));
  }
  std::vector<Sparse> sparse(config.sparse.size());
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    TF_RETURN_IF_ERROR(GatherSparse(config.dense.size() + i, fit, allocator, &sparse[i]));
  }
  for (auto member : {&Sparse::indices, &Sparse::values, &Sparse::shape}) {
    for (Sparse& one : sparse) tensors->push_back(std::move(one.*member));
  }
  return OkStatus();
}

}  // namespace ascpipe
