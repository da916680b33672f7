// Written by ascpipe/layout/generate.py from ascpipe/layout: change it there.
#ifndef ASCPIPE_CORE_ERROR_CODES_GEN_H_
#define ASCPIPE_CORE_ERROR_CODES_GEN_H_

#include "core/core_status.h"

namespace ascpipe {

constexpr ErrorCode kE110 = {Code::kFailedPrecondition, "E110"};  // the daemon died
constexpr ErrorCode kE204 = {Code::kFailedPrecondition, "E204"};  // a process that was forked from the trainer uses its pipeline
constexpr ErrorCode kE301 = {Code::kDataLoss, "E301"};  // a plan, an entry or a row number in shared memory cannot be right
constexpr ErrorCode kE310 = {Code::kFailedPrecondition, "E310"};  // other ranks did not come to an exchange in time
constexpr ErrorCode kE311 = {Code::kDataLoss, "E311"};  // a step of several ranks failed when some had updated their tables
constexpr ErrorCode kE312 = {Code::kFailedPrecondition, "E312"};  // the engine of exchanges has ended, as a rank did
constexpr ErrorCode kE421 = {Code::kDataLoss, "E421"};  // a row on disk cannot be read

// The text of kE110, before and after the process id.
constexpr const char* kSupervisorGone[] = {"ascpipe supervisor (pid ", ") is gone. No batch was half-applied. What was trained since the last checkpoint is lost. Restart the program"};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ERROR_CODES_GEN_H_
