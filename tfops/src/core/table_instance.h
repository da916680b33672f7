// Device rows of a table. The process owns the rows, and variables of sessions share the memory of the rows.
#ifndef ASCPIPE_CORE_TABLE_INSTANCE_H_
#define ASCPIPE_CORE_TABLE_INSTANCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/initial_rows.h"

namespace ascpipe {

// Interface to the memory of device rows. An accelerator would need another implementation of DeviceTable.
class DeviceTable {
 public:
  virtual ~DeviceTable() = default;
  virtual float* rows() const = 0;  // float[row_count, dim]
  virtual std::int64_t row_count() const = 0;
  virtual std::int64_t dim() const = 0;
};

// Device table in a separate mapping of host memory. Unused rows occupy no memory, and large tables use huge pages.
class HostDeviceTable : public DeviceTable {
 public:
  static CoreStatus Make(const std::string& name, std::int64_t row_count, std::int64_t dim,
                         std::shared_ptr<DeviceTable>* table);
  ~HostDeviceTable() override;

  float* rows() const override { return rows_; }
  std::int64_t row_count() const override { return row_count_; }
  std::int64_t dim() const override { return dim_; }

 private:
  HostDeviceTable(float* rows, std::int64_t row_count, std::int64_t dim, std::size_t bytes)
      : rows_(rows), row_count_(row_count), dim_(dim), bytes_(bytes) {}

  float* rows_;
  std::int64_t row_count_;
  std::int64_t dim_;
  std::size_t bytes_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_TABLE_INSTANCE_H_
