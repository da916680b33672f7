// Returns an error for a bad record of a dataset, or skips the record and logs a message.
#ifndef ASCPIPE_BRIDGE_BAD_RECORDS_H_
#define ASCPIPE_BRIDGE_BAD_RECORDS_H_

#include <cstdint>
#include <string>

#include "bridge/read_settings.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Counts and logs a skipped record.
void SkipRecord(const ReadSettings& settings, std::int64_t number, const std::string& why);

// Skips a record that does not have the features of the dataset, or returns an error, depending on `settings`.
tensorflow::Status OnUnfitRecord(const ReadSettings& settings, std::int64_t number, const std::string& why);

// Returns the error of a batch in which no record has the features of the dataset. `first` is the number of the first
// record of the batch.
tensorflow::Status NoFitRecord(const ReadSettings& settings, std::int64_t first);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BAD_RECORDS_H_
