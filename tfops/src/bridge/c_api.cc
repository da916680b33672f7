// C interface for ascpipe/tf/running/native.py (ctypes).
//
// The functions for holds and for the state of tables are in c_api_state.cc.
#include "bridge/c_api.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bridge/pipeline.h"
#include "bridge/read_starts.h"
#include "bridge/thread_wait.h"
#include "core/calls.gen.h"
#include "core/claim.h"
#include "core/fork.h"
#include "core/ticket.h"
#include "input/row_group_loader.h"
#include "peers/horovod.h"

namespace {

using ascpipe::Answer;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::Pipeline;
using ascpipe::SpanRing;

// Calls `work` with the pipeline under construction or the started pipeline, and returns the status of `work`.
template <typename Work>
int OnOwned(char* err, int err_bytes, const Work& work) {
  const std::shared_ptr<Pipeline> pipeline = ascpipe::OwnedPipeline();
  if (pipeline != nullptr) return Answer(work(pipeline.get()), err, err_bytes);
  return Answer(Error(Code::kFailedPrecondition, "asc_pipeline_new comes first"), err, err_bytes);
}

// Calls `work` with the started pipeline and one of its tables, and returns the status of `work`.
template <typename Work>
int OnTable(int table, char* err, int err_bytes, const Work& work) {
  std::shared_ptr<Pipeline> pipeline;
  CoreStatus status = ascpipe::CurrentPipeline(&pipeline);
  if (!status.ok()) return Answer(status, err, err_bytes);
  const ascpipe::Table* const found = pipeline->table(table);
  status = found == nullptr ? Error(Code::kInvalidArgument, "there is no table ", table) : work(pipeline.get(), *found);
  return Answer(status, err, err_bytes);
}

ascpipe::FeatureList Features(int count, const int* tables, const char* const* names) {
  return {std::vector<int>(tables, tables + count), std::vector<std::string>(names, names + count)};
}

// Waits until the rows and entries of a table are consistent (ReadersMayRead).
class SizeWait : public ascpipe::ThreadWait {
 public:
  SizeWait(const ascpipe::Stream& stream, int index, const ascpipe::Table& of)
      : stream_(stream), index_(index), header_(of.header()) {
    table = of.number();
    table_name = of.name();
    waits_for = ascpipe::layout::kWaitRead;
  }

  bool Poll(CoreStatus*) override {
    if (!ascpipe::ReadersMayRead(stream_.ring(), index_)) return false;
    rows_ = ascpipe::LoadAcquire(&header_->rows);
    return true;
  }

  std::int64_t rows() const { return rows_; }  // valid when the wait is over

 private:
  const ascpipe::Stream& stream_;
  const int index_;
  const ascpipe::layout::Table* const header_;
  std::int64_t rows_ = 0;
};

}  // namespace

ASC_EXPORT int asc_layout_hash(std::int64_t* hash) {
  *hash = ascpipe::layout::kLayoutHash;
  return 0;
}

ASC_EXPORT const char* asc_build_info() { return ASC_BUILD_INFO; }

ASC_EXPORT int asc_pipeline_new(std::int64_t run, int session_fd, int lifeline_fd, int spin_us, double wait_timeout_s,
                                char* err, int err_bytes) {
  if (ascpipe::InForkedChild() || ascpipe::OwnedPipeline() != nullptr) {
    return Answer(Error(Code::kFailedPrecondition, "one pipeline per process: stop the one before"), err, err_bytes);
  }
  const int lifeline = lifeline_fd < 0 ? -1 : fcntl(lifeline_fd, F_DUPFD_CLOEXEC, 0);
  std::shared_ptr<Pipeline> pipeline;
  const CoreStatus status = Pipeline::Make(run, session_fd, {spin_us, wait_timeout_s, lifeline}, &pipeline);
  if (status.ok()) ascpipe::OwnPipeline(std::move(pipeline));
  return Answer(status, err, err_bytes);
}

ASC_EXPORT int asc_pipeline_add_table(const ascpipe::TableArguments* table, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    if (table->initial_kind < 0 || table->initial_kind > ascpipe::layout::kInitialPool) {
      return Error(Code::kInvalidArgument, "table '", table->name, "': kind of initial rows ", table->initial_kind,
                   " is outside [0, ", ascpipe::layout::kInitialPool, "]");
    }
    const ascpipe::InitialRows initial = {table->seed, static_cast<ascpipe::layout::InitialKind>(table->initial_kind),
                                          table->a, table->b, table->scale};
    if (table->averages != 0) pipeline->SetAverages(table->number);
    const CoreStatus status = pipeline->AddTable(
        table->number, table->name, {table->dim, table->device_rows, table->home_rows, table->row_floats},
        std::vector<std::int64_t>(table->padding_keys, table->padding_keys + table->padding_count), initial, table->fd,
        table->bytes);
    if (status.ok() && table->directories != nullptr) {
      pipeline->table(table->number)->SetDirectories(table->directories);
    }
    return status;
  });
}

ASC_EXPORT int asc_pipeline_set_pool(int table, const float* pool, std::int64_t rows, std::int64_t dim, char* err,
                                     int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) { return pipeline->SetPool(table, pool, rows, dim); });
}

ASC_EXPORT int asc_pipeline_add_stream(int stream, int channel, int fd, std::int64_t bytes, int n_tables,
                                       const int* tables, int n_specs, const int* spec_part,
                                       const char* const* spec_names, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    return pipeline->AddStream(stream, channel, fd, bytes, std::vector<int>(tables, tables + n_tables),
                               Features(n_specs, spec_part, spec_names));
  });
}

ASC_EXPORT int asc_pipeline_accumulate(int table, std::int64_t steps, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) { return pipeline->Accumulate(table, steps); });
}

ASC_EXPORT int asc_stream_began_after(int stream, std::int64_t batches, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    ascpipe::Stream* const found = pipeline->stream(stream);
    if (found == nullptr) return Error(Code::kInvalidArgument, "there is no stream ", stream);
    found->BeganAfter(batches);
    return CoreStatus();
  });
}

// Sets the dataset position that follows the trained batches of a restored stream. `source` is 0 if the dataset is
// unknown.
ASC_EXPORT int asc_stream_began_at(int stream, std::int64_t source, std::int64_t pass, std::int64_t epoch,
                                   std::int64_t consumed, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    ascpipe::Stream* const found = pipeline->stream(stream);
    if (found == nullptr) return Error(Code::kInvalidArgument, "there is no stream ", stream);
    found->BeganAt({source, pass, epoch, consumed});
    return CoreStatus();
  });
}

// Sets the position at which the next iterator of a dataset starts.
ASC_EXPORT int asc_read_starts_at(std::int64_t source, std::int64_t pass, std::int64_t epoch, std::int64_t consumed,
                                  char*, int) {
  ascpipe::ReadStarts::Get()->Restore({source, pass, epoch, consumed});
  return 0;
}

// Registers the function that decodes row groups of Parquet files, or unregisters it if `load` is null
// (input/row_group_loader.h).
ASC_EXPORT int asc_read_decode_with(ascpipe::LoadRowGroup load, char*, int) {
  ascpipe::SetRowGroupLoader(load);
  return 0;
}

ASC_EXPORT int asc_stream_began_with(int table, const std::int64_t* keys, std::int64_t n, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    int index = -1;
    ascpipe::Stream* const found = pipeline->TrainingStream(table, &index);
    if (found == nullptr) return Error(Code::kInvalidArgument, "table ", table, " is not trained");
    found->BeganWith(index, std::vector<std::int64_t>(keys, keys + n));
    return CoreStatus();
  });
}

ASC_EXPORT int asc_pipeline_set_ranks(int rank, int size, const char* library, const char* signature,
                                      const char* collectives, int spans_fd, std::int64_t spans_bytes, char* err,
                                      int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    std::unique_ptr<ascpipe::Transport> transport;
    CoreStatus status = ascpipe::HorovodTransport::Make(library, rank, size, &transport);
    if (!status.ok()) return status;
    ascpipe::Ranks::Settings settings;
    if (spans_fd >= 0) {
      status = SpanRing<ascpipe::layout::ExchangeSpan>::Map(spans_fd, spans_bytes, rank, size, &settings.peers.spans);
    }
    if (!status.ok()) return status;
    settings.peers.wait_timeout_s = pipeline->waiter().wait_timeout_s();
    settings.peers.signature = signature;
    settings.peers.collectives = collectives;
    settings.peers.figures = pipeline->exchanges();
    // The callback keeps a plain pointer, because the pipeline outlives the thread that calls the callback.
    settings.peers.on_change = [pipeline] { pipeline->waiter().Wake(); };
    settings.close_timeout_ms = 10000;
    return pipeline->SetRanks(std::unique_ptr<ascpipe::Ranks>(new ascpipe::Ranks(std::move(transport), settings)));
  });
}

ASC_EXPORT int asc_pipeline_record_reading(int rank, int size, int fd, std::int64_t bytes, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    std::shared_ptr<SpanRing<ascpipe::layout::ReadingSpan>> spans;
    const CoreStatus status = SpanRing<ascpipe::layout::ReadingSpan>::Map(fd, bytes, rank, size, &spans);
    if (status.ok()) pipeline->RecordReading(std::move(spans));
    return status;
  });
}

ASC_EXPORT int asc_pipeline_add_local_stream(int stream, int ring, int fd, std::int64_t bytes, int n_tables,
                                             const int* tables, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    return pipeline->AddLocalStream(stream, ring, fd, bytes, std::vector<int>(tables, tables + n_tables));
  });
}

ASC_EXPORT int asc_pipeline_share_stream(int stream, int known, int n_specs, const int* spec_part,
                                         const char* const* spec_names, char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [&](Pipeline* pipeline) {
    return pipeline->ShareStream(stream, known, Features(n_specs, spec_part, spec_names));
  });
}

ASC_EXPORT int asc_program_begin(const char* start, const char* stop, char* err, int err_bytes) {
  ascpipe::BeginProgram(start, stop);
  return Answer(CoreStatus(), err, err_bytes);
}

ASC_EXPORT int asc_pipeline_start(char* err, int err_bytes) {
  return OnOwned(err, err_bytes, [](Pipeline* pipeline) {
    pipeline->Start();
    ascpipe::PublishPipeline();
    return CoreStatus();
  });
}

ASC_EXPORT int asc_pipeline_stop(char* err, int err_bytes) {
  // A forked child must not stop the pipeline.
  if (ascpipe::InForkedChild()) return Answer(CoreStatus(), err, err_bytes);
  const std::shared_ptr<Pipeline> pipeline = ascpipe::DisownPipeline();
  if (pipeline != nullptr) pipeline->Stop();
  return Answer(CoreStatus(), err, err_bytes);
}

ASC_EXPORT int asc_table_size(int table, std::int64_t* rows, char* err, int err_bytes) {
  return OnTable(table, err, err_bytes, [&](Pipeline* pipeline, const ascpipe::Table& found) {
    int index = -1;
    const ascpipe::Stream* stream = pipeline->TrainingStream(table, &index);
    if (stream == nullptr) {  // no stream trains the table, so only loads change the table
      *rows = ascpipe::LoadAcquire(&found.header()->rows);
      return CoreStatus();
    }
    const auto wait = std::make_shared<SizeWait>(*stream, index, found);
    const CoreStatus status = ascpipe::ThreadWait::Sleep(pipeline->waiter(), wait);
    *rows = wait->rows();
    return status;
  });
}

// Sets *starts to the number of times that the initializers of a table have run.
ASC_EXPORT int asc_table_starts(int table, std::int64_t* starts, char* err, int err_bytes) {
  return OnTable(table, err, err_bytes, [starts](Pipeline*, const ascpipe::Table& found) {
    *starts = found.starts();
    return CoreStatus();
  });
}

// Sets *rows to the row capacity of a table. The capacity is:
// - for a table with rows on disk, the maximum number of rows in memory and on disk together
// - for an expansion table, the number of home rows whose memory is allocated
// - for another table with home rows, the maximum number of home rows
// - for a table without home rows, the number of device rows
ASC_EXPORT int asc_table_capacity(int table, std::int64_t* rows, char* err, int err_bytes) {
  return OnTable(table, err, err_bytes, [rows](Pipeline*, const ascpipe::Table& found) {
    const ascpipe::TableSizes& sizes = found.sizes();
    if (found.is_on_disk()) {
      *rows = found.most_disk_rows();
    } else if (sizes.home_rows == 0) {
      *rows = sizes.device_rows;
    } else {
      *rows = found.is_expansion() ? found.home().ready : sizes.home_rows;
    }
    return CoreStatus();
  });
}
