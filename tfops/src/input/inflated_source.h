// Decompressed content of a GZIP or ZLIB file.
#ifndef ASCPIPE_INPUT_INFLATED_SOURCE_H_
#define ASCPIPE_INPUT_INFLATED_SOURCE_H_

#include <memory>

#include "input/byte_source.h"

namespace ascpipe {

enum class Compression : int { kDetect = -1, kNone = 0, kGzip = 1, kZlib = 2 };

// Opens the decompressed content of a file, whose compression is kGzip or kZlib. A file may consist of several
// compressed streams, whose contents are concatenated. Bytes after the last stream that are not the beginning of
// another stream cause an error. The file must outlive the source.
//
// zlib is loaded when the first compressed file is opened (libz.so.1). Therefore, a build needs no headers of zlib, and
// a machine without zlib reads plain files.
CoreStatus OpenInflated(const DataFile* file, Compression compression, std::unique_ptr<ByteSource>* source);

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_INFLATED_SOURCE_H_
