// What ascpipe/tf/native.py calls through ctypes.
#include <cstdint>

#define ASC_EXPORT extern "C" __attribute__((visibility("default")))

ASC_EXPORT int asc_layout_hash(std::int64_t* hash) {
  *hash = ASC_LAYOUT_HASH;
  return 0;
}

ASC_EXPORT const char* asc_build_info() { return ASC_BUILD_INFO; }
