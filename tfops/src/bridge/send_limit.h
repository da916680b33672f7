// Maximum number of distinct keys of a batch in a program with static shapes.
#ifndef ASCPIPE_BRIDGE_SEND_LIMIT_H_
#define ASCPIPE_BRIDGE_SEND_LIMIT_H_

#include <cstdint>
#include <string>

#include "bridge/status.h"

namespace ascpipe {

// Limit on the number of distinct keys of a batch in one table. A batch may have at most send_count * features distinct
// keys. With several ranks, the limit applies separately to the keys of each owner. A send_count of 0 means that there
// is no limit.
struct SendLimit {
  int send_count = 0;
  int features = 0;

  // Returns an error if `distinct` is greater than the limit. With several ranks, `of` is " of rank R" for the rank R
  // that owns the keys.
  tensorflow::Status Check(const std::string& table, std::int64_t distinct, const std::string& of = "") const {
    if (send_count == 0 || distinct <= static_cast<std::int64_t>(send_count) * features) {
      return OkStatus();
    }
    return Refuse(Code::kInvalidArgument, "table '", table, "': the batch has ", distinct, " distinct keys", of,
                  ", more than send_count allows (", send_count, " for each of ", features,
                  " features). Nothing was trained. Raise send_count");
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SEND_LIMIT_H_
