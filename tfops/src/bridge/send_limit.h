// How many distinct keys a program with static shapes says that its batches have.
#ifndef ASCPIPE_BRIDGE_SEND_LIMIT_H_
#define ASCPIPE_BRIDGE_SEND_LIMIT_H_

#include <cstdint>
#include <string>

#include "bridge/status.h"

namespace ascpipe {

// The send_count of a table's lookups: of each feature, and of several ranks for each owner of keys.  0: no limit.
struct SendLimit {
  const std::string& table;
  int send_count;
  int features;

  tensorflow::Status Check(std::int64_t distinct) const { return CheckOwner(distinct, -1); }

  // Of the keys that one rank owns.
  tensorflow::Status CheckOwner(std::int64_t distinct, int owner) const {
    if (send_count == 0 || distinct <= static_cast<std::int64_t>(send_count) * features) {
      return tensorflow::Status::OK();
    }
    const std::string of = owner < 0 ? "" : " of rank " + std::to_string(owner);
    return Refuse(Code::kInvalidArgument, "table '", table, "': the batch has ", distinct, " distinct keys", of,
                  ", more than send_count allows (", send_count, " for each of ", features,
                  " features). Nothing was trained with it; enlarge send_count");
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SEND_LIMIT_H_
