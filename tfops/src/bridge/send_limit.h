// How many distinct keys a program with static shapes says that its batches have.
#ifndef ASCPIPE_BRIDGE_SEND_LIMIT_H_
#define ASCPIPE_BRIDGE_SEND_LIMIT_H_

#include <cstdint>
#include <string>

#include "bridge/status.h"

namespace ascpipe {

// The send_count of a table's lookups: for each feature, and of several ranks for each owner of keys; 0 = any number.
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
                  " features). Nothing was trained with it; enlarge send_count");
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SEND_LIMIT_H_
