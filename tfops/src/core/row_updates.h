// Optimizer updates of embeddings and optimizer slots.
#ifndef ASCPIPE_CORE_ROW_UPDATES_H_
#define ASCPIPE_CORE_ROW_UPDATES_H_

#include <cstdint>

namespace ascpipe {

constexpr int kMostStates = 3;

// Rows and their gradients. No row occurs twice, so several threads may update the rows at the same time.
struct UpdatedRows {
  float* states[kMostStates];  // address of row 0 of the embeddings and of each optimizer slot; float[dim] each
  std::int64_t stride;         // floats from a row to the next row
  std::int64_t dim;
  const std::int64_t* rows;  // int64[n], -1 is skipped
  const float* grads;        // float[n, dim]
  std::int64_t n;
};

// The optimizer rules use TensorFlow's formulas for each element. Operations are executed in the order in which the
// formulas are written, and each result is rounded to float. TensorFlow computes approximate square roots for full
// vector registers, and exact square roots for the remaining elements. The rules compute exact square roots for all
// elements, so that results do not depend on the row's position, the number of threads or the processor.

// Computes w -= rate * (g + weight_decay * w).
struct GradientDescent {
  static constexpr int kStates = 1;
  float rate;
  float weight_decay;  // 0 for none
};

// Computes accumulator += g * g; w -= rate * g * (1 / sqrt(accumulator)).
struct Adagrad {
  static constexpr int kStates = 2;
  float rate;
};

// Computes accumulator += g * g; w -= rate * g / sqrt(accumulator + 1e-7).
struct AdagradByAddress {
  static constexpr int kStates = 2;
  float rate;
};

// Computes:
//   m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * (g * g)
//   w -= rate * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)
struct LazyAdam {
  static constexpr int kStates = 3;  // w, m, v
  float rate;
  float beta1;
  float beta2;
  float epsilon;
  float beta1_power;
  float beta2_power;
};

// Computes:
//   shrunk = g + 2 * shrinkage * w; accum' = accum + g * g
//   linear += shrunk - (accum' ^ -power - accum ^ -power) / rate * w
//   w = (clip(linear, -l1, l1) - linear) / (accum' ^ -power / rate + 2 * l2); accum = accum'
struct Ftrl {
  static constexpr int kStates = 3;  // w, accum, linear
  float rate;
  float l1;
  float l2;
  float shrinkage;  // 0 for none
  float power;      // -0.5: the square root
};

void Update(const GradientDescent& rule, const UpdatedRows& rows);
void Update(const Adagrad& rule, const UpdatedRows& rows);
void Update(const AdagradByAddress& rule, const UpdatedRows& rows);
void Update(const LazyAdam& rule, const UpdatedRows& rows);
void Update(const Ftrl& rule, const UpdatedRows& rows);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_UPDATES_H_
