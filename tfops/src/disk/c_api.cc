// C interface of the row engine. Python uses the interface through ctypes. ascpipe/layout/calls.py defines the structs.
//
// Every call with an `err` argument returns 0 if it succeeds. A call that fails writes a UTF-8 text to err[err_bytes]
// and returns the number of a TensorFlow error code.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "core/layout.gen.h"
#include "disk/row_engine.h"

#define ASC_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using ascpipe::BatchKind;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::RowEngine;
using ascpipe::RowFile;

int Answer(const CoreStatus& status, char* err, int err_bytes) {
  if (err != nullptr && err_bytes > 0) {
    const std::size_t bytes = std::min(status.text().size(), static_cast<std::size_t>(err_bytes - 1));
    std::memcpy(err, status.text().data(), bytes);
    err[bytes] = '\0';
  }
  return static_cast<int>(status.code());
}

CoreStatus Add(RowEngine* engine, const CoreStatus& opened, std::unique_ptr<RowFile> file, int* number) {
  return opened.ok() ? engine->Add(std::move(file), number) : opened;
}

CoreStatus NoFile(int file) { return Error(Code::kInvalidArgument, "there is no row file ", file); }

}  // namespace

ASC_EXPORT std::int64_t asc_disk_layout_hash() { return ascpipe::layout::kLayoutHash; }

ASC_EXPORT RowEngine* asc_disk_new(int threads) { return new RowEngine(threads); }

// Frees an engine. asc_disk_free blocks until all system calls have returned, so call asc_disk_stop first.
ASC_EXPORT void asc_disk_free(RowEngine* engine) { delete engine; }

ASC_EXPORT int asc_disk_create(RowEngine* engine, const char* directory, std::int64_t row_bytes, int buffered,
                               int* file, char* err, int err_bytes) {
  std::unique_ptr<RowFile> made;
  const CoreStatus status = RowFile::Create(directory, row_bytes, buffered != 0, &made);
  return Answer(Add(engine, status, std::move(made), file), err, err_bytes);
}

// Creates a row file whose descriptor is passed to another process. The caller owns *fd.
ASC_EXPORT int asc_disk_create_file(const char* directory, std::int64_t row_bytes, int buffered, int* fd,
                                    int* file_system, char* err, int err_bytes) {
  std::unique_ptr<RowFile> made;
  const CoreStatus status = RowFile::Create(directory, row_bytes, buffered != 0, &made);
  if (!status.ok()) return Answer(status, err, err_bytes);
  *file_system = static_cast<int>(made->file_system().kind);
  *fd = fcntl(made->fd(), F_DUPFD_CLOEXEC, 0);
  if (*fd < 0) return Answer(Error(Code::kResourceExhausted, std::strerror(errno)), err, err_bytes);
  return 0;
}

ASC_EXPORT int asc_disk_adopt(RowEngine* engine, int fd, const char* directory, std::int64_t row_bytes, int* file,
                              char* err, int err_bytes) {
  std::unique_ptr<RowFile> adopted;
  const CoreStatus status = RowFile::Adopt(fd, directory, row_bytes, &adopted);
  return Answer(Add(engine, status, std::move(adopted), file), err, err_bytes);
}

ASC_EXPORT int asc_disk_grow(RowEngine* engine, int file, std::int64_t blocks, std::int64_t step_bytes, char* err,
                             int err_bytes) {
  RowFile* const found = engine->file(file);
  return Answer(found == nullptr ? NoFile(file) : found->Grow(blocks, step_bytes), err, err_bytes);
}

ASC_EXPORT int asc_disk_describe(RowEngine* engine, int file, ascpipe::DiskFile* out, char* err, int err_bytes) {
  const RowFile* const found = engine->file(file);
  if (found == nullptr) return Answer(NoFile(file), err, err_bytes);
  *out = {found->fd(),
          found->is_direct() ? 1 : 0,
          static_cast<int>(found->file_system().kind),
          found->file_system().name,
          found->blocks(),
          found->format().block_bytes(),
          found->format().slots_per_block()};
  return 0;
}

ASC_EXPORT int asc_disk_submit(RowEngine* engine, int file, int writes, const ascpipe::DiskBatch* batch,
                               std::int64_t* job, char* err, int err_bytes) {
  const BatchKind kind = writes != 0 ? BatchKind::kWrite : BatchKind::kRead;
  return Answer(engine->Submit(file, kind, *batch, job), err, err_bytes);
}

// Waits for at most `limit_ms`. Returns 1 if the batch has finished, otherwise 0.
ASC_EXPORT int asc_disk_wait(RowEngine* engine, std::int64_t job, std::int64_t limit_ms) {
  return engine->Wait(job, std::chrono::milliseconds(limit_ms)) ? 1 : 0;
}

ASC_EXPORT void asc_disk_cancel(RowEngine* engine, std::int64_t job) { engine->Cancel(job); }

ASC_EXPORT int asc_disk_figures(RowEngine* engine, int file, ascpipe::DiskFigures* out, char* err, int err_bytes) {
  return Answer(engine->Figures(file, out), err, err_bytes);
}

ASC_EXPORT int asc_disk_stop(RowEngine* engine, std::int64_t limit_ms, char* err, int err_bytes) {
  return Answer(engine->Stop(std::chrono::milliseconds(limit_ms)), err, err_bytes);
}
