// Structs of the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html). The layout of the
// structs never changes. pyarrow exports decoded row groups in these structs.
#ifndef ASCPIPE_INPUT_ARROW_ABI_H_
#define ASCPIPE_INPUT_ARROW_ABI_H_

#include <cstdint>

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);  // null: the struct is empty
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;  // -1: unknown
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);  // null: the struct is empty
  void* private_data;
};

}  // extern "C"

#endif  // ASCPIPE_INPUT_ARROW_ABI_H_
