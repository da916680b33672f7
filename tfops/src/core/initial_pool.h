// Initial rows that keys pick from a pool, wherever the pool lies.
#ifndef ASCPIPE_CORE_INITIAL_POOL_H_
#define ASCPIPE_CORE_INITIAL_POOL_H_

#include <cstdint>

#include "core/initial_rows.h"

namespace ascpipe {

// InitialRows::Fill with another pool than its own.
//   pool  float[initial.pool_rows, dim]; of other kinds than kInitialPool it is not read   row  float[dim]
void FillFrom(const InitialRows& initial, const float* pool, std::int64_t key, std::int64_t dim, float* row);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INITIAL_POOL_H_
