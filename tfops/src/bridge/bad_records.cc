#include "bridge/bad_records.h"

#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/platform/logging.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMostLogged = 10;  // skipped records of a dataset that are logged with a reason

bool IsPowerOfTen(std::int64_t number) {
  while (number % 10 == 0) number /= 10;
  return number == 1;
}

}  // namespace

void SkipRecord(const ReadSettings& settings, std::int64_t number, const std::string& why) {
  const std::int64_t skipped = settings.skipped_records.fetch_add(1) + 1;
  if (skipped > kMostLogged && !IsPowerOfTen(skipped)) return;
  LOG(WARNING) << "ascpipe: skipped " << settings.Describe(number) << ": " << Printable(why)
               << (skipped < kMostLogged ? std::string()
                                         : Text(". The dataset has skipped ", skipped,
                                                " records so far; the next "
                                                "message comes after ",
                                                10 * skipped));
}

tensorflow::Status OnUnfitRecord(const ReadSettings& settings, std::int64_t number, const std::string& why) {
  if (settings.skips_bad_records) {
    SkipRecord(settings, number, why);
    return OkStatus();
  }
  return Refuse(kE337, settings.Describe(number),
                " does not have the features that the dataset reads: ", Printable(why),
                ". No batch has this record, and nothing else is lost. Correct the features (`ascpipe "
                "data head` prints the features of the file), or pass on_bad_record=\"skip\"");
}

tensorflow::Status NoFitRecord(const ReadSettings& settings, std::int64_t first) {
  return Refuse(kE337, "No record of a batch has the features that the dataset reads; the first is ",
                settings.Describe(first),
                ". No batch has these records, and nothing else is lost. "
                "Correct the features (`ascpipe data head` prints the features of the file)");
}

}  // namespace ascpipe
