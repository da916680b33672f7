// C interface of training data: records, indexes, permutations and batch plans. Python uses the interface through
// ctypes. ascpipe/layout/calls.py defines the structs.
#include "input/c_api.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "core/crc32c.h"
#include "core/error_codes.gen.h"
#include "input/batch_plan.h"
#include "input/example_schema.h"
#include "input/permutation.h"
#include "input/record_file.h"
#include "input/record_index.h"
#include "input/record_reader.h"

namespace {

using ascpipe::Answer;
using ascpipe::BatchPlan;
using ascpipe::BatchPlanArguments;
using ascpipe::ByteRange;
using ascpipe::Compression;
using ascpipe::CoreStatus;
using ascpipe::EpochPosition;
using ascpipe::Error;
using ascpipe::ExampleSchema;
using ascpipe::FeatureFacts;
using ascpipe::FeatureSummary;
using ascpipe::FileStamp;
using ascpipe::Give;
using ascpipe::Permutation;
using ascpipe::RecordFormat;
using ascpipe::RecordIndex;
using ascpipe::RecordIndexWriter;
using ascpipe::RecordPlace;
using ascpipe::RecordReader;
using ascpipe::SequencePart;

static_assert(sizeof(RecordPlace) == 3 * sizeof(std::int64_t), "Python passes arrays of three numbers");
static_assert(sizeof(FileStamp) == 2 * sizeof(std::int64_t), "Python passes arrays of two numbers");
static_assert(sizeof(EpochPosition) == 2 * sizeof(std::int64_t), "Python passes arrays of two numbers");

}  // namespace

// Opens a file of training data. `compression` is a value of Compression.
ASC_EXPORT int asc_data_open(const char* path, const RecordFormat* format, int compression, RecordReader** file,
                             char* err, int err_bytes) {
  std::unique_ptr<RecordReader> opened;
  const CoreStatus status = RecordReader::Open(path, *format, static_cast<Compression>(compression), &opened);
  return Give(status, std::move(opened), file, err, err_bytes);
}

// Continues a CRC-32C. `before` is the CRC-32C of all bytes before `data`, or 0 if there are none.
ASC_EXPORT std::uint32_t asc_data_crc(const char* data, std::int64_t size, std::uint32_t before) {
  return ascpipe::Crc32c(data, static_cast<std::size_t>(size), before);
}

ASC_EXPORT void asc_data_close(RecordReader* file) { delete file; }

ASC_EXPORT int asc_data_compression(const RecordReader* file) { return static_cast<int>(file->compression()); }

// Reads the next record. The bytes are valid until the next call with the same file. At the end of the file, *data is
// null.
ASC_EXPORT int asc_data_next(RecordReader* file, RecordPlace* place, const char** data, std::int64_t* bytes, char* err,
                             int err_bytes) {
  ByteRange range{nullptr, 0};
  bool is_end = false;
  const CoreStatus status = file->Next(place, &range, &is_end);
  *data = status.ok() && !is_end ? range.data : nullptr;
  *bytes = static_cast<std::int64_t>(range.size);
  return Answer(status, err, err_bytes);
}

// Skips the next record, even if its data is damaged. At the end of the file, sets *is_end to 1.
ASC_EXPORT int asc_data_skip(RecordReader* file, RecordPlace* place, int* is_end, char* err, int err_bytes) {
  bool ended = false;
  const CoreStatus status = file->Skip(place, &ended);
  *is_end = ended ? 1 : 0;
  return Answer(status, err, err_bytes);
}

// Returns the status of a read, or an error if the file has changed.
static CoreStatus Unchanged(const RecordReader* file, const CoreStatus& status) {
  const CoreStatus unchanged = file->file().CheckUnchanged();
  return unchanged.ok() ? status : unchanged;
}

ASC_EXPORT int asc_data_read_at(RecordReader* file, const RecordPlace* place, const char** data, std::int64_t* bytes,
                                char* err, int err_bytes) {
  ByteRange range{nullptr, 0};
  const CoreStatus status = Unchanged(file, file->ReadAt(*place, &range));
  *data = range.data;
  *bytes = static_cast<std::int64_t>(range.size);
  return Answer(status, err, err_bytes);
}

// Reads and checks at most *records records, until at least `bytes` bytes were read. Adds the records to `schema`, and
// subtracts the number of read records from *records. If *not_example is -1, *not_example is set to the number of the
// first record that is not a tf.train.Example. *position is the offset of the next record. At the end of the file, sets
// *is_end to 1.
ASC_EXPORT int asc_data_check(RecordReader* file, ExampleSchema* schema, std::int64_t bytes, std::int64_t* records,
                              std::int64_t* not_example, std::int64_t* position, int* is_end, char* err,
                              int err_bytes) {
  bool ended = false;
  CoreStatus status;
  const std::int64_t until = file->position() + bytes;
  while (status.ok() && !ended && *records > 0 && file->position() < until) {
    RecordPlace place;
    ByteRange data;
    status = file->Next(&place, &data, &ended);
    if (!status.ok() || ended) continue;
    --*records;
    if (!schema->Add(data, place.number) && *not_example < 0) *not_example = place.number;
  }
  *is_end = ended ? 1 : 0;
  *position = file->position();
  return Answer(status, err, err_bytes);
}

ASC_EXPORT ExampleSchema* asc_data_schema_new() { return new ExampleSchema; }

ASC_EXPORT void asc_data_schema_free(ExampleSchema* schema) { delete schema; }

ASC_EXPORT std::int64_t asc_data_schema_records(const ExampleSchema* schema) { return schema->records(); }

// Returns the number of features, and writes the facts about the first `count` features.
ASC_EXPORT std::int64_t asc_data_schema_features(const ExampleSchema* schema, std::int64_t count, FeatureFacts* facts) {
  const std::int64_t all = static_cast<std::int64_t>(schema->features().size());
  for (std::int64_t i = 0; i < std::min(all, count); ++i) {
    const FeatureSummary& feature = schema->features()[static_cast<std::size_t>(i)];
    facts[i] = {const_cast<char*>(feature.name.data()),
                static_cast<std::int64_t>(feature.name.size()),
                feature.type,
                feature.records,
                feature.least,
                feature.most,
                feature.first,
                feature.other};
  }
  return all;
}

ASC_EXPORT int asc_data_index_begin(const char* data_path, const RecordFormat* format, const char* index_path,
                                    RecordIndexWriter** writer, char* err, int err_bytes) {
  std::unique_ptr<RecordIndexWriter> begun;
  const CoreStatus status = RecordIndexWriter::Begin(data_path, *format, index_path, &begun);
  return Give(status, std::move(begun), writer, err, err_bytes);
}

// Scans about `bytes` bytes. The last step creates the index file and sets *is_done to 1.
ASC_EXPORT int asc_data_index_step(RecordIndexWriter* writer, std::int64_t bytes, std::int64_t* position, int* is_done,
                                   char* err, int err_bytes) {
  bool done = false;
  const CoreStatus status = writer->Step(bytes, &done);
  *position = writer->data().position();
  *is_done = done ? 1 : 0;
  return Answer(status, err, err_bytes);
}

// Frees a writer. Removes the temporary file if the index is not complete.
ASC_EXPORT void asc_data_index_end(RecordIndexWriter* writer) { delete writer; }

ASC_EXPORT int asc_data_index_open(const char* path, const FileStamp* data, const RecordFormat* format,
                                   RecordIndex** index, char* err, int err_bytes) {
  std::unique_ptr<RecordIndex> opened;
  const CoreStatus status = RecordIndex::Open(path, *data, *format, &opened);
  return Give(status, std::move(opened), index, err, err_bytes);
}

ASC_EXPORT void asc_data_index_close(RecordIndex* index) { delete index; }

ASC_EXPORT std::int64_t asc_data_index_records(const RecordIndex* index) { return index->records(); }

ASC_EXPORT int asc_data_index_find(const RecordIndex* index, std::int64_t first, std::int64_t count,
                                   RecordPlace* places, char* err, int err_bytes) {
  return Answer(index->Find(first, count, places), err, err_bytes);
}

// Writes the numbers at `count` positions of a permutation of [0, of->records), beginning with position `first`.
ASC_EXPORT int asc_data_permutation(const BatchPlanArguments* of, std::int64_t epoch, std::int64_t first,
                                    std::int64_t count, std::int64_t* numbers, char* err, int err_bytes) {
  if (of->records < 1 || first < 0 || count < 0 || first > of->records || count > of->records - first) {
    return Answer(Error(ascpipe::kE334, "A permutation of ", of->records, " numbers has no ", count,
                        " positions that begin with ", first),
                  err, err_bytes);
  }
  const Permutation permutation(of->seed, static_cast<std::uint64_t>(epoch), of->records);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = permutation.At(first + i);
  return Answer(CoreStatus(), err, err_bytes);
}

// Moves *position forward by `batches` global batches.
ASC_EXPORT int asc_data_plan_move(const BatchPlanArguments* of, std::int64_t batches, EpochPosition* position,
                                  int* is_end, char* err, int err_bytes) {
  CoreStatus status = BatchPlan::Check(*of);
  bool ended = false;
  if (status.ok()) status = BatchPlan(*of).Move(*position, batches, position, &ended);
  *is_end = ended ? 1 : 0;
  return Answer(status, err, err_bytes);
}

// Writes the record numbers of a rank's batch at *position, a result of asc_data_plan_move, to records[batch_size].
// Then moves *position to the end of the global batch.
ASC_EXPORT int asc_data_plan_batch(const BatchPlanArguments* of, std::int64_t rank, EpochPosition* position,
                                   std::int64_t* records, std::int64_t* count, char* err, int err_bytes) {
  EpochPosition begin = *position;
  bool is_end = false;
  CoreStatus status = BatchPlan::Check(*of);
  if (status.ok()) status = BatchPlan(*of).Move(begin, 0, &begin, &is_end);
  if (status.ok() && (is_end || rank < 0 || rank >= of->ranks)) {
    status = Error(ascpipe::kE334, "Rank ", rank, " of ", of->ranks, " has no batch in epoch ", begin.epoch,
                   ": the data has ", of->epochs, " epochs. Pass a rank and a position of this data");
  }
  if (!status.ok()) return Answer(status, err, err_bytes);
  const BatchPlan plan(*of);
  const SequencePart part = plan.PartOf(begin, rank, position);
  plan.RecordsOf(begin.epoch, part, records);
  *count = part.count;
  return Answer(status, err, err_bytes);
}
