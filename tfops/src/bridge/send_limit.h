// Maximum number of distinct keys of a batch in a program with static shapes.
#ifndef ASCPIPE_BRIDGE_SEND_LIMIT_H_
#define ASCPIPE_BRIDGE_SEND_LIMIT_H_

#include <cstdint>
#include <string>

#include "bridge/status.h"

namespace ascpipe {

// The send_count of a table's lookups: per feature and, with several ranks, per owner of keys; 0: unlimited.
struct SendLimit {
  int send_count = 0;
  int features = 0;

  // `of`: of several ranks, " of rank R", which owns them.
  tensorflow::Status Check(const std::string& table, std::int64_t distinct, const std::string& of = "") const {
    if (send_count == 0 || distinct <= static_cast<std::int64_t>(send_count) * features) {
      return tensorflow::Status::OK();
    }
    return Refuse(Code::kInvalidArgument, "table '", table, "': the batch has ", distinct, " distinct keys", of,
                  ", more than send_count allows (", send_count, " for each of ", features,
                  " features). Nothing was trained. Raise send_count");
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SEND_LIMIT_H_
