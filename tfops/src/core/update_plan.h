// Pure function that decides which updates of a directory to apply.
#ifndef ASCPIPE_CORE_UPDATE_PLAN_H_
#define ASCPIPE_CORE_UPDATE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/update_file.h"

namespace ascpipe {

// Identifies a served version of the tables.
struct ServedAt {
  std::int64_t sequence = 0;  // sequence of the last update that was applied or found to be older; 0: none
  std::int64_t step = -1;
  std::string id;
};

struct UpdatePlan {
  std::vector<std::size_t> apply;  // updates to apply, in this order
  std::int64_t sequence = 0;       // last update that the served version already contains, if above at.sequence
  std::int64_t refused = -1;       // first update that does not follow the version before it; -1: none
};

// Plans the updates after version `at`. `updates` contains the readable updates, sorted by sequence number.
//
// The newest full update replaces all rows, and the later deltas are applied to its rows. If there is no full update,
// the deltas are applied to the served version. The first served version comes from a SavedModel, which may be newer
// than the updates in the directory. The first updates are therefore applied only if they continue from the checkpoint
// of the SavedModel or end at a later step.
UpdatePlan PlanUpdates(const ServedAt& at, const std::vector<UpdateInfo>& updates);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_UPDATE_PLAN_H_
