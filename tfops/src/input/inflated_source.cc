#include "input/inflated_source.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

// Part of zlib's binary interface, which is the same in all releases 1.x (https://zlib.net/manual.html). zlib checks
// the size of the struct when a stream is initialized.
struct ZlibStream {
  const unsigned char* next_in;
  unsigned avail_in;
  unsigned long total_in;
  unsigned char* next_out;
  unsigned avail_out;
  unsigned long total_out;
  const char* message;
  void* state;
  void* (*allocate)(void*, unsigned, unsigned);
  void (*free)(void*, void*);
  void* opaque;
  int data_type;
  unsigned long checksum;
  unsigned long reserved;
};

constexpr int kOk = 0, kStreamEnd = 1, kMemoryError = -4, kBufferError = -5;  // results of inflate
constexpr int kNoFlush = 0;
constexpr int kZlibWindow = 15, kGzipWindow = 15 + 16;  // log2 of the largest window; adding 16 selects GZIP
constexpr std::size_t kInputBytes = std::size_t{1} << 18;
constexpr std::size_t kMostOutput = std::size_t{1} << 30;  // because zlib's counters have 32 bits

struct Zlib {
  int (*init)(ZlibStream*, int window, const char* version, int struct_bytes) = nullptr;
  int (*inflate)(ZlibStream*, int flush) = nullptr;
  int (*reset)(ZlibStream*) = nullptr;
  int (*end)(ZlibStream*) = nullptr;
  const char* (*version)() = nullptr;
  std::string error;  // empty if zlib was loaded
};

template <typename Function>
bool Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Zlib LoadZlib() {
  Zlib zlib;
  void* library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    zlib.error = dlerror();
    library = dlopen(nullptr, RTLD_NOW);  // a Python that is linked statically may contain zlib
  }
  if (Load(library, "inflateInit2_", &zlib.init) && Load(library, "inflate", &zlib.inflate) &&
      Load(library, "inflateReset", &zlib.reset) && Load(library, "inflateEnd", &zlib.end) &&
      Load(library, "zlibVersion", &zlib.version)) {
    zlib.error.clear();
  } else if (zlib.error.empty()) {
    zlib.error = "libz.so.1 lacks functions";
  }
  return zlib;
}

const Zlib& LoadedZlib() {
  static const Zlib zlib = LoadZlib();
  return zlib;
}

class InflatedSource : public ByteSource {
 public:
  InflatedSource(const DataFile* file, Compression compression, const Zlib& zlib)
      : file_(file), compression_(compression), zlib_(zlib), input_(kInputBytes) {}
  ~InflatedSource() override {
    if (is_open_) zlib_.end(&stream_);
  }

  CoreStatus Open() {
    const int window = compression_ == Compression::kGzip ? kGzipWindow : kZlibWindow;
    const int result = zlib_.init(&stream_, window, zlib_.version(), static_cast<int>(sizeof(stream_)));
    is_open_ = result == kOk;
    if (is_open_) return CoreStatus();
    return Error(kE332, file_->path(), " cannot be decompressed: zlib ", zlib_.version(), " returned ", result,
                 ". Nothing was read. Free some memory, or install another release of zlib");
  }

  CoreStatus Read(std::size_t count, char* buffer, std::size_t* got) override {
    *got = 0;
    const std::size_t wanted = std::min(count, kMostOutput);
    while (*got == 0 && wanted > 0) {
      if (stream_.avail_in == 0) {
        const CoreStatus status = ReadInput();
        if (!status.ok()) return status;
        // A stream may have more output after all of its input was read. When no output is left, inflate returns
        // kBufferError.
        if (stream_.avail_in == 0 && !is_inside_) return CoreStatus();
      }
      if (!is_inside_) {
        const CoreStatus status = BeginStream();
        if (!status.ok()) return status;
      }
      stream_.next_out = reinterpret_cast<unsigned char*>(buffer);
      stream_.avail_out = static_cast<unsigned>(wanted);
      const int result = zlib_.inflate(&stream_, kNoFlush);
      *got = wanted - stream_.avail_out;
      if (result == kStreamEnd) {
        is_inside_ = false;
      } else if (result != kOk) {
        return *got > 0 && result == kBufferError ? CoreStatus() : Damaged(result);
      }
    }
    return CoreStatus();
  }

  bool Seek(std::int64_t) override { return false; }

 private:
  CoreStatus ReadInput() {
    std::size_t got;
    const CoreStatus status = file_->Read(position_, input_.size(), input_.data(), &got);
    if (!status.ok()) return status;
    position_ += static_cast<std::int64_t>(got);
    stream_.next_in = reinterpret_cast<const unsigned char*>(input_.data());
    stream_.avail_in = static_cast<unsigned>(got);
    return CoreStatus();
  }

  CoreStatus BeginStream() {
    is_inside_ = true;
    return zlib_.reset(&stream_) == kOk ? CoreStatus() : Damaged(kMemoryError);
  }

  CoreStatus Damaged(int result) const {
    const char* const kind = compression_ == Compression::kGzip ? "GZIP" : "ZLIB";
    const std::int64_t offset = position_ - static_cast<std::int64_t>(stream_.avail_in);
    if (result == kMemoryError) {
      return Error(kE332, file_->path(), " cannot be decompressed: zlib has no memory. Free some memory");
    }
    if (result == kBufferError) {
      return Error(kE330, file_->path(), " is truncated: its ", kind, " stream continues after byte ", offset,
                   ", where the file ends. Write or copy the file again");
    }
    return Error(kE330, file_->path(), " is damaged near byte ", offset, ": it is not a valid ", kind, " stream (",
                 stream_.message == nullptr ? "no reason given" : stream_.message, "). Write or copy the file again");
  }

  const DataFile* const file_;
  const Compression compression_;
  const Zlib& zlib_;
  std::vector<char> input_;
  std::int64_t position_ = 0;  // position in the file after the bytes of input_
  ZlibStream stream_ = ZlibStream();
  bool is_open_ = false;
  bool is_inside_ = false;  // true if a stream has begun but not ended
};

}  // namespace

CoreStatus OpenInflated(const DataFile* file, Compression compression, std::unique_ptr<ByteSource>* source) {
  const Zlib& zlib = LoadedZlib();
  if (!zlib.error.empty()) {
    return Error(kE332, file->path(), " is compressed and zlib is not installed: ", zlib.error,
                 ". Nothing was read. Install the package zlib1g (Debian, Ubuntu) or zlib (Fedora, openEuler), or "
                 "decompress the file");
  }
  std::unique_ptr<InflatedSource> made(new InflatedSource(file, compression, zlib));
  const CoreStatus status = made->Open();
  if (status.ok()) *source = std::move(made);
  return status;
}

}  // namespace ascpipe
