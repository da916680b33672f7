// Attributes of the op AscReadDataset.
#ifndef ASCPIPE_BRIDGE_READ_ARGUMENTS_H_
#define ASCPIPE_BRIDGE_READ_ARGUMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bridge/example_columns.h"
#include "bridge/read_settings.h"
#include "core/calls.gen.h"
#include "input/csv_parser.h"
#include "input/record_set.h"
#include "input/row_groups.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

struct ReadArguments {
  std::vector<RecordSet::Source> sources;  // sources of TFRecord and text files
  std::vector<ParquetFile> parquet_files;
  std::int64_t source = 0, rank = 0, readers = 1, read_ahead = 1;
  bool skips_bad_records = false;
  BatchPlanArguments plan = {};       // the number of records is not set
  ExampleFeatures features;           // features of TFRecord and Parquet files
  CsvOptions text;                    // options of text files
  std::vector<std::int64_t> buckets;  // hash buckets of the columns of text files
};

tensorflow::Status ReadArgumentsOf(tensorflow::OpKernelConstruction* construction, ReadArguments* arguments);

// Opens the indexes of the files, and returns the settings of the dataset.
tensorflow::Status OpenRead(const ReadArguments& arguments, std::shared_ptr<const ReadSettings>* settings);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_ARGUMENTS_H_
