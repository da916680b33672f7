// Which ops of a step become one, and what comes before what: pure functions, with a twin in
// tests/reference/step_rules.py.
#ifndef ASCPIPE_STEP_STEP_RULES_H_
#define ASCPIPE_STEP_STEP_RULES_H_

#include "step/step.h"

namespace ascpipe {
namespace step {

// The layout of a step.  No bit of a result depends on it: only ops that would have the same inputs when they run, and
// that add in the same order, become one.
Layout Decide(Step step);

// Reads and sums: which rows are combined or joined where they are read, and which gradients are summed where they lie.
// Merges items of the step's order.
void DecideReads(Step* step, Layout* layout);

// Plans of one batch, and updates by one formula.
void DecideGroups(Step* step, Layout* layout);

// Control edges: readers of rows come before what moves or updates these rows, where the program has not ordered the
// two.
void DecideOrder(Step* step, Layout* layout);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_STEP_RULES_H_
