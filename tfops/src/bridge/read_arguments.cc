#include "bridge/read_arguments.h"

#include <string>
#include <utility>

#include "bridge/example_batch.h"
#include "bridge/status.h"
#include "bridge/text_batch.h"
#include "input/batch_plan.h"
#include "tensorflow/core/framework/types.h"

namespace ascpipe {

namespace {

using tensorflow::DataTypeVector;
using tensorflow::OpKernelConstruction;
using tensorflow::Status;
using tensorflow::Tensor;

constexpr std::size_t kFormatFields = 4;
constexpr std::int64_t kParquet = 2;      // RecordFormat::kind
constexpr std::size_t kStampNumbers = 3;  // numbers per Parquet file that precede the row counts of its row groups

// Op attributes that describe dense features or the fields of text records.
struct DenseAttributes {
  std::vector<std::string> keys;
  DataTypeVector types;
  std::vector<tensorflow::PartialTensorShape> shapes;
  std::vector<Tensor> defaults;
};

Status ReadInt(OpKernelConstruction* construction, const char* name, std::int64_t* value) {
  tensorflow::int64 read;
  TF_RETURN_IF_ERROR(construction->GetAttr(name, &read));
  *value = read;
  return OkStatus();
}

Status ReadInts(OpKernelConstruction* construction, const char* name, std::vector<std::int64_t>* values) {
  std::vector<tensorflow::int64> read;
  TF_RETURN_IF_ERROR(construction->GetAttr(name, &read));
  values->assign(read.begin(), read.end());
  return OkStatus();
}

// Reads the attributes of each file: size, modification time, number of row groups, and number of rows of each row
// group.
Status ReadRowGroups(OpKernelConstruction* construction, const std::vector<std::string>& files,
                     ReadArguments* arguments) {
  std::vector<std::int64_t> numbers;
  TF_RETURN_IF_ERROR(ReadInts(construction, "row_groups", &numbers));
  std::size_t at = 0;
  for (const std::string& path : files) {
    const std::size_t left = numbers.size() - at;
    if (left < kStampNumbers || numbers[at + 2] < 0 ||
        static_cast<std::size_t>(numbers[at + 2]) > left - kStampNumbers) {
      return Refuse(Code::kInvalidArgument, "AscReadDataset: row_groups has no numbers of ", path);
    }
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(at + kStampNumbers);
    arguments->parquet_files.push_back({path, {numbers[at], numbers[at + 1]}, {first, first + numbers[at + 2]}});
    at += kStampNumbers + static_cast<std::size_t>(numbers[at + 2]);
  }
  return OkStatus();
}

Status ReadFiles(OpKernelConstruction* construction, ReadArguments* arguments) {
  std::vector<std::string> files, indexes;
  std::vector<std::int64_t> format;
  TF_RETURN_IF_ERROR(construction->GetAttr("files", &files));
  TF_RETURN_IF_ERROR(construction->GetAttr("indexes", &indexes));
  TF_RETURN_IF_ERROR(ReadInts(construction, "record_format", &format));
  if (!format.empty() && format[0] == kParquet) return ReadRowGroups(construction, files, arguments);
  if (files.size() != indexes.size() || format.size() != kFormatFields) {
    return Refuse(Code::kInvalidArgument, "AscReadDataset: ", files.size(), " files, ", indexes.size(),
                  " indexes, and a format of ", format.size(), " numbers");
  }
  const RecordFormat of = {static_cast<int>(format[0]), static_cast<int>(format[1]), static_cast<int>(format[2]),
                           static_cast<int>(format[3])};
  TF_RETURN_IF_ERROR(ToStatus(CheckFormat(of)));
  arguments->sources.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) arguments->sources.push_back({files[i], indexes[i], of});
  return OkStatus();
}

Status ReadSchedule(OpKernelConstruction* construction, ReadArguments* arguments) {
  BatchPlanArguments& plan = arguments->plan;
  std::int64_t seed;
  bool shuffles, drops;
  TF_RETURN_IF_ERROR(ReadInt(construction, "source", &arguments->source));
  TF_RETURN_IF_ERROR(ReadInt(construction, "rank", &arguments->rank));
  TF_RETURN_IF_ERROR(ReadInt(construction, "readers", &arguments->readers));
  TF_RETURN_IF_ERROR(ReadInt(construction, "read_ahead", &arguments->read_ahead));
  TF_RETURN_IF_ERROR(construction->GetAttr("skips_bad_records", &arguments->skips_bad_records));
  TF_RETURN_IF_ERROR(ReadInt(construction, "seed", &seed));
  TF_RETURN_IF_ERROR(ReadInt(construction, "epochs", &plan.epochs));
  TF_RETURN_IF_ERROR(ReadInt(construction, "batch_size", &plan.batch_size));
  TF_RETURN_IF_ERROR(ReadInt(construction, "ranks", &plan.ranks));
  TF_RETURN_IF_ERROR(construction->GetAttr("shuffles", &shuffles));
  TF_RETURN_IF_ERROR(construction->GetAttr("drop_remainder", &drops));
  plan.seed = static_cast<std::uint64_t>(seed);
  plan.shuffles = shuffles ? 1 : 0;
  plan.drop_remainder = drops ? 1 : 0;
  return OkStatus();
}

Status ReadDense(OpKernelConstruction* construction, DenseAttributes* dense) {
  TF_RETURN_IF_ERROR(construction->GetAttr("dense_keys", &dense->keys));
  TF_RETURN_IF_ERROR(construction->GetAttr("dense_types", &dense->types));
  TF_RETURN_IF_ERROR(construction->GetAttr("dense_shapes", &dense->shapes));
  TF_RETURN_IF_ERROR(construction->GetAttr("dense_defaults", &dense->defaults));
  const std::size_t count = dense->keys.size();
  if (dense->types.size() == count && dense->shapes.size() == count && dense->defaults.size() == count) {
    return OkStatus();
  }
  return Refuse(Code::kInvalidArgument, "AscReadDataset: ", count, " dense keys, ", dense->types.size(), " types, ",
                dense->shapes.size(), " shapes and ", dense->defaults.size(), " default values");
}

// Sets variable_length and elements_per_stride in the same way as ParseExample.
Status DescribeShape(tensorflow::example::FastParseExampleConfig::Dense* dense) {
  const tensorflow::PartialTensorShape& shape = dense->shape;
  if (shape.unknown_rank()) return Refuse(Code::kInvalidArgument, "AscReadDataset: a dense feature has no shape");
  dense->variable_length = shape.dims() > 0 && shape.dim_size(0) == -1;
  dense->elements_per_stride = 1;
  for (int axis = dense->variable_length ? 1 : 0; axis < shape.dims(); ++axis) {
    if (shape.dim_size(axis) < 0) {
      return Refuse(Code::kInvalidArgument, "AscReadDataset: the shape of the dense feature '", dense->feature_name,
                    "' is ", shape.DebugString(), ", but only the first dimension may be unknown");
    }
    dense->elements_per_stride *= static_cast<std::size_t>(shape.dim_size(axis));
  }
  return OkStatus();
}

Status ReadExampleFeatures(OpKernelConstruction* construction, const DenseAttributes& dense,
                           ExampleFeatures* features) {
  std::vector<std::string> keys;
  DataTypeVector types;
  TF_RETURN_IF_ERROR(construction->GetAttr("sparse_keys", &keys));
  TF_RETURN_IF_ERROR(construction->GetAttr("sparse_types", &types));
  TF_RETURN_IF_ERROR(ReadInts(construction, "buckets", &features->buckets));
  if (types.size() != keys.size() || features->buckets.size() != keys.size() + dense.keys.size()) {
    return Refuse(Code::kInvalidArgument, "AscReadDataset: ", keys.size(), " sparse keys, ", types.size(),
                  " types and ", features->buckets.size(), " buckets");
  }
  features->config.dense.resize(dense.keys.size());
  for (std::size_t i = 0; i < dense.keys.size(); ++i) {
    auto& feature = features->config.dense[i];
    feature.feature_name = dense.keys[i];
    feature.dtype = dense.types[i];
    feature.shape = dense.shapes[i];
    feature.default_value = dense.defaults[i];
    TF_RETURN_IF_ERROR(DescribeShape(&feature));
  }
  features->config.sparse.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    features->config.sparse[i].feature_name = keys[i];
    features->config.sparse[i].dtype = types[i];
  }
  return OkStatus();
}

// Sets the type and the default value of a column.
Status DescribeColumn(tensorflow::DataType type, bool is_hexadecimal, const Tensor& value, CsvColumn* column) {
  column->has_default = value.NumElements() == 1;
  const bool has = column->has_default;
  switch (type) {
    case tensorflow::DT_INT32:
      column->type = CsvType::kInt32;
      if (has) column->whole = value.flat<tensorflow::int32>()(0);
      return OkStatus();
    case tensorflow::DT_INT64:
      column->type = is_hexadecimal ? CsvType::kHex : CsvType::kInt64;
      if (has) column->whole = value.flat<tensorflow::int64>()(0);
      return OkStatus();
    case tensorflow::DT_FLOAT:
      column->type = CsvType::kFloat;
      if (has) column->real = value.flat<float>()(0);
      return OkStatus();
    case tensorflow::DT_DOUBLE:
      column->type = CsvType::kDouble;
      if (has) column->real = value.flat<double>()(0);
      return OkStatus();
    case tensorflow::DT_STRING:
      column->type = CsvType::kString;
      if (has) column->text = std::string(value.flat<TensorString>()(0));
      return OkStatus();
    default:
      return Refuse(Code::kInvalidArgument, "AscReadDataset: a field of text has the type ",
                    tensorflow::DataTypeString(type));
  }
}

Status ReadColumns(OpKernelConstruction* construction, const DenseAttributes& dense, ReadArguments* arguments) {
  std::vector<std::int64_t> fields;
  std::vector<bool> are_hexadecimal;
  TF_RETURN_IF_ERROR(ReadInts(construction, "fields", &fields));
  TF_RETURN_IF_ERROR(ReadInts(construction, "buckets", &arguments->buckets));
  TF_RETURN_IF_ERROR(construction->GetAttr("hexadecimal", &are_hexadecimal));
  TF_RETURN_IF_ERROR(construction->GetAttr("selects_fields", &arguments->text.selects));
  const std::size_t count = dense.keys.size();
  if (fields.size() != count || are_hexadecimal.size() != count || arguments->buckets.size() != count) {
    return Refuse(Code::kInvalidArgument, "AscReadDataset: ", count, " keys, ", fields.size(), " fields and ",
                  arguments->buckets.size(), " buckets of text files");
  }
  const RecordFormat& format = arguments->sources.front().format;
  arguments->text.delimiter = static_cast<char>(format.delimiter);
  arguments->text.use_quotes = format.use_quotes != 0;
  arguments->text.loses_signs = kLosesSigns;
  for (std::size_t i = 0; i < count; ++i) {
    CsvColumn column = {fields[i], CsvType::kInt64, false, 0, 0.0, ""};
    TF_RETURN_IF_ERROR(DescribeColumn(dense.types[i], are_hexadecimal[i], dense.defaults[i], &column));
    arguments->text.columns.push_back(std::move(column));
  }
  return OkStatus();
}

bool IsTextRead(const ReadArguments& arguments) {
  return arguments.parquet_files.empty() && IsText(arguments.sources.front().format);
}

Status OpenRecords(const ReadArguments& arguments, ReadSettings* settings) {
  std::unique_ptr<RecordSet> records;
  TF_RETURN_IF_ERROR(ToStatus(RecordSet::Open(arguments.sources, &records)));
  settings->plan.records = records->records();
  settings->plan.window = records->window();
  if (records->window() > 0) settings->readers = 1;  // each reader would decompress all records
  settings->records = std::move(records);
  if (!IsTextRead(arguments)) {
    settings->parser.reset(new ExampleBatchParser(arguments.features));
    return OkStatus();
  }
  std::unique_ptr<CsvParser> parser;
  TF_RETURN_IF_ERROR(ToStatus(CsvParser::Make(arguments.text, &parser)));
  settings->parser.reset(new TextBatchParser(std::move(parser), arguments.buckets));
  return OkStatus();
}

void OpenRowGroups(const ReadArguments& arguments, ReadSettings* settings) {
  settings->columns.reset(new RowColumns(arguments.features));
  settings->row_groups =
      std::make_shared<RowGroups>(arguments.parquet_files, settings->columns->names(), arguments.readers > 1);
  settings->plan.records = settings->row_groups->rows();
  settings->readers = 1;  // each reader would decode all row groups
}

// Returns a sentence that names the first file, for error messages.
std::string NamesFiles(const ReadArguments& arguments) {
  const bool is_parquet = !arguments.parquet_files.empty();
  const std::size_t files = is_parquet ? arguments.parquet_files.size() : arguments.sources.size();
  const std::string& first = is_parquet ? arguments.parquet_files.front().path : arguments.sources.front().path;
  return files == 1 ? Text("The data is in ", first) : Text("The first of the ", files, " files is ", first);
}

}  // namespace

Status ReadArgumentsOf(OpKernelConstruction* construction, ReadArguments* arguments) {
  DenseAttributes dense;
  TF_RETURN_IF_ERROR(ReadFiles(construction, arguments));
  TF_RETURN_IF_ERROR(ReadSchedule(construction, arguments));
  TF_RETURN_IF_ERROR(ReadDense(construction, &dense));
  return IsTextRead(*arguments) ? ReadColumns(construction, dense, arguments)
                                : ReadExampleFeatures(construction, dense, &arguments->features);
}

Status OpenRead(const ReadArguments& arguments, std::shared_ptr<const ReadSettings>* settings) {
  const auto opened = std::make_shared<ReadSettings>();
  opened->source = arguments.source;
  opened->plan = arguments.plan;
  opened->rank = arguments.rank;
  opened->readers = arguments.readers;
  opened->read_ahead = arguments.read_ahead;
  opened->skips_bad_records = arguments.skips_bad_records;
  if (arguments.parquet_files.empty()) {
    TF_RETURN_IF_ERROR(OpenRecords(arguments, opened.get()));
  } else {
    OpenRowGroups(arguments, opened.get());
  }
  const CoreStatus plan = BatchPlan::Check(opened->plan);
  if (!plan.ok()) return ToStatus(CoreStatus(plan.code(), Text(plan.text(), ". ", NamesFiles(arguments))));
  *settings = opened;
  return OkStatus();
}

}  // namespace ascpipe
