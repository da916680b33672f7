// Decides what happens to bad records of a dataset: an error, or a message in the log.
#ifndef ASCPIPE_BRIDGE_BAD_RECORDS_H_
#define ASCPIPE_BRIDGE_BAD_RECORDS_H_

#include <cstdint>
#include <string>

#include "bridge/read_settings.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Counts a record that is skipped, and logs it.
void SkipRecord(const ReadSettings& settings, std::int64_t number, const std::string& why);

// Skips a record that does not have the features of the dataset, or returns the error.
tensorflow::Status OnUnfitRecord(const ReadSettings& settings, std::int64_t number, const std::string& why);

// Returns the error of a batch in which no record has the features of the dataset. `first` is one of its records.
tensorflow::Status NoFitRecord(const ReadSettings& settings, std::int64_t first);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BAD_RECORDS_H_
