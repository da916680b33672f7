// Decompressed content of a GZIP or ZLIB file.
#ifndef ASCPIPE_INPUT_INFLATED_SOURCE_H_
#define ASCPIPE_INPUT_INFLATED_SOURCE_H_

#include <memory>

#include "input/byte_source.h"

namespace ascpipe {

enum class Compression : int { kDetect = -1, kNone = 0, kGzip = 1, kZlib = 2 };

// Opens the decompressed content of a file. `compression` is kGzip or kZlib. A file may consist of several compressed
// streams, whose contents are concatenated. Read returns an error if other bytes follow the last stream. The file must
// outlive the source.
//
// zlib (libz.so.1) is loaded when the first compressed file is opened. Therefore a build does not need zlib's headers,
// and plain files can be read without zlib.
CoreStatus OpenInflated(const DataFile* file, Compression compression, std::unique_ptr<ByteSource>* source);

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_INFLATED_SOURCE_H_
