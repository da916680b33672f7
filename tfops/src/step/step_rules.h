// Rules that decide which ops of a step are merged, and their order. The rules are pure functions.
// tests/reference/step_rules.py is the reference implementation.
#ifndef ASCPIPE_STEP_STEP_RULES_H_
#define ASCPIPE_STEP_STEP_RULES_H_

#include "step/step.h"

namespace ascpipe {
namespace step {

// Returns the layout of a step. All layouts have bit-identical results. Ops are merged only if the merged op has the
// same inputs and adds in the same order.
Layout Decide(Step step);

// Decides which reads combine or join rows, and which sums read gradients in place. Merges items of the step's order.
void DecideReads(Step* step, Layout* layout);

// Groups the plans of one batch, and the updates with one formula.
void DecideGroups(Step* step, Layout* layout);

// Adds control edges from readers of rows to ops that move or update these rows, if the program does not order them.
void DecideOrder(Step* step, Layout* layout);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_STEP_RULES_H_
