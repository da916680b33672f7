// Initial rows from a pool that is stored outside InitialRows.
#ifndef ASCPIPE_CORE_INITIAL_POOL_H_
#define ASCPIPE_CORE_INITIAL_POOL_H_

#include <cstdint>

#include "core/initial_rows.h"

namespace ascpipe {

// Fills a row like InitialRows::Fill, but with the given pool. `pool` is float[initial.pool_rows, dim] and is read
// only for kInitialPool. `row` is float[dim].
void FillFrom(const InitialRows& initial, const float* pool, std::int64_t key, std::int64_t dim, float* row);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INITIAL_POOL_H_
