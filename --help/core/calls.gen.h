// Written by ascpipe/layout/generate.py from ascpipe/layout: change it there.
#ifndef ASCPIPE_CORE_CALLS_GEN_H_
#define ASCPIPE_CORE_CALLS_GEN_H_

#include <cstdint>

namespace ascpipe {

struct TableArguments {
  int number;
  const char* name;
  std::int64_t dim;
  std::int64_t device_rows;
  std::int64_t home_rows;
  std::int64_t row_floats;
  std::int64_t padding_count;
  const std::int64_t* padding_keys;
  std::uint64_t seed;
  int initial_kind;
  double a;
  double b;
  double scale;
  int averages;
  int fd;
  std::int64_t bytes;
};
static_assert(sizeof(TableArguments) == 120, "TableArguments");

struct DiskBatch {
  std::int64_t count;
  const std::int64_t* slots;
  const std::int64_t* keys;
  const std::uint32_t* generations;
  void* const* rows;
  const std::uint8_t* alone;
  std::int32_t* results;
  void* const* requests;
  void* bell;
};
static_assert(sizeof(DiskBatch) == 72, "DiskBatch");

struct DiskFile {
  int fd;
  int is_direct;
  int file_system;
  const char* file_system_name;
  std::int64_t blocks;
  std::int64_t block_bytes;
  std::int64_t slots_per_block;
};
static_assert(sizeof(DiskFile) == 48, "DiskFile");

struct DiskFigures {
  std::int64_t queued;
  std::int64_t under_way;
  std::int64_t deepest;
  std::int64_t delayed;
  std::int64_t reads;
  std::int64_t writes;
  std::int64_t read_bytes;
  std::int64_t written_bytes;
  std::int64_t rows_read;
  std::int64_t rows_written;
  std::int64_t rows_failed;
  std::int64_t rows_damaged;
  std::int64_t damaged_neighbours;
  std::int64_t read_p50_us;
  std::int64_t read_p99_us;
  std::int64_t write_p50_us;
  std::int64_t write_p99_us;
};
static_assert(sizeof(DiskFigures) == 136, "DiskFigures");

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CALLS_GEN_H_
