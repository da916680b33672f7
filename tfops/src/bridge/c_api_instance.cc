// C interface for read-only instances of tables (ascpipe/tf/checkpoints/instances.py).
#include <cstdint>
#include <memory>

#include "bridge/c_api.h"
#include "bridge/instance.h"

using ascpipe::Answer;
using ascpipe::Code;
using ascpipe::CoreStatus;
using ascpipe::Error;
using ascpipe::FixedRows;
using ascpipe::Instance;
using ascpipe::Instances;

// Creates an instance without tables. Release *instance with asc_instance_release.
ASC_EXPORT int asc_instance_new(std::int64_t* instance, char* err, int err_bytes) {
  *instance = Instances().Add(std::make_shared<Instance>());
  return Answer(CoreStatus(), err, err_bytes);
}

// Sets *bytes to the size of the memory for a table of `rows` rows.
ASC_EXPORT int asc_instance_bytes(std::int64_t rows, std::int64_t dim, std::int64_t* bytes, char* err, int err_bytes) {
  *bytes = FixedRows::Bytes(rows, dim);
  return Answer(CoreStatus(), err, err_bytes);
}

// Adds a table of `rows` rows. The caller must fill *keys (int64[rows]) and *embeddings (float[rows, dim]) before it
// calls asc_instance_index.
ASC_EXPORT int asc_instance_add(std::int64_t instance, int table, const char* name, std::int64_t rows, std::int64_t dim,
                                std::int64_t** keys, float** embeddings, char* err, int err_bytes) {
  std::shared_ptr<Instance> found;
  std::shared_ptr<FixedRows> made;
  CoreStatus status = Instances().Find(instance, &found);
  if (status.ok()) status = FixedRows::Make(name, rows, dim, &made);
  if (status.ok()) {
    *keys = made->keys();
    *embeddings = made->embeddings();
    found->tables[table] = std::move(made);
  }
  return Answer(status, err, err_bytes);
}

// Builds the index of a table after the caller has filled in all rows.
ASC_EXPORT int asc_instance_index(std::int64_t instance, int table, char* err, int err_bytes) {
  std::shared_ptr<Instance> found;
  CoreStatus status = Instances().Find(instance, &found);
  if (status.ok() && found->tables.count(table) == 0) {
    status = Error(Code::kInvalidArgument, "instance ", instance, " has no table ", table);
  }
  if (status.ok()) status = found->tables[table]->Index();
  return Answer(status, err, err_bytes);
}

// Releases the caller's reference. Sessions that read the instance keep it alive.
ASC_EXPORT int asc_instance_release(std::int64_t* instance, char* err, int err_bytes) {
  return Answer(Instances().GiveBack(ascpipe::TakeNumber(instance)), err, err_bytes);
}
