// Rows of several tables in a message to each rank: per table the count, presence flags, and the rows.
#ifndef ASCPIPE_BRIDGE_ROW_SECTIONS_H_
#define ASCPIPE_BRIDGE_ROW_SECTIONS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "peers/peers.h"

namespace ascpipe {

// Rows of one table in rank order.
struct DealtRows {
  const float* rows;            // float[n, dim]
  const std::uint8_t* present;  // uint8[n], 0: there is no such row; null: all are there
  std::int64_t dim;
  const std::vector<std::int64_t>* bounds;  // [ranks + 1]: the rows for each rank
};

// Writer of the sections.  It does not copy the rows; the caller keeps them alive.
class RowSections {
 public:
  // Appends the rows of a table to the pieces for each rank.
  void Add(const DealtRows& table, std::vector<std::vector<Piece>>* to);

 private:
  struct Head {
    std::int64_t count;
    std::int64_t has_mask;
  };

  std::deque<Head> heads_;

  friend class RowReader;
};

// Reader of the sections: rank by rank, and table by table in the same order.
class RowReader {
 public:
  explicit RowReader(const Piece& section)
      : at_(static_cast<const std::uint8_t*>(section.data)), left_(section.bytes) {}

  // The next table's rows, of which there must be `count`: float[count, dim], not aligned; *present null: all are
  // there.
  CoreStatus Next(int rank, std::int64_t count, std::int64_t dim, const std::uint8_t** rows,
                  const std::uint8_t** present);

 private:
  const std::uint8_t* at_;
  std::int64_t left_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_SECTIONS_H_
