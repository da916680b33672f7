// Sections of rows in the messages between ranks. For each table, a section contains the number of rows, the presence
// flags and the rows.
#ifndef ASCPIPE_BRIDGE_ROW_SECTIONS_H_
#define ASCPIPE_BRIDGE_ROW_SECTIONS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "peers/peers.h"

namespace ascpipe {

// Rows of one table, ordered by the rank that receives them.
struct DealtRows {
  const float* rows;            // float[n, dim]
  const std::uint8_t* present;  // uint8[n], 0: the row is missing; null: all rows are present
  std::int64_t dim;
  const std::vector<std::int64_t>* bounds;  // [ranks + 1]: the rows for each rank
};

// Writer of the sections. The writer does not copy the rows, so the caller must keep the rows alive.
class RowSections {
 public:
  // For each rank, appends to (*to)[rank] the number of rows of a table for this rank, their presence flags and the
  // rows.
  void Add(const DealtRows& table, std::vector<std::vector<Piece>>* to);

 private:
  struct Head {
    std::int64_t count;
    std::int64_t has_mask;
  };

  std::deque<Head> heads_;

  friend class RowReader;
};

// Reader of the section of one rank. Read the tables in the order in which the tables were written.
class RowReader {
 public:
  explicit RowReader(const Piece& section)
      : at_(static_cast<const std::uint8_t*>(section.data)), left_(section.bytes) {}

  // Reads the rows of the next table. Returns an error unless the table has `count` rows. *rows is float[count, dim]
  // and may be unaligned. *present is null if all rows are present.
  CoreStatus Next(int rank, std::int64_t count, std::int64_t dim, const std::uint8_t** rows,
                  const std::uint8_t** present);

 private:
  const std::uint8_t* at_;
  std::int64_t left_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_SECTIONS_H_
