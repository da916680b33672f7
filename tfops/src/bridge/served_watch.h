// Tables of a session that are updated from a directory while lookups read the tables.
#ifndef ASCPIPE_BRIDGE_SERVED_WATCH_H_
#define ASCPIPE_BRIDGE_SERVED_WATCH_H_

#include <memory>
#include <string>
#include <utility>

#include "core/update_watch.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/variant_encode_decode.h"  // templates that the variant needs
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace ascpipe {

class ServedWatch : public tensorflow::ResourceBase {
 public:
  ServedWatch(const std::string& directory, double every_s, ServedAt at) : watch_(directory, every_s, std::move(at)) {}

  UpdateWatch* watch() { return &watch_; }
  tensorflow::string DebugString() const override { return "served tables with updates"; }

 private:
  UpdateWatch watch_;
};

// Value of a variant tensor: the version that all lookups of a step read.
struct ServedSnapshot {
  std::shared_ptr<const ServedVersion> version;

  // TensorFlow requires the functions below for values of variant tensors. A ServedSnapshot cannot be sent to another
  // process.
  static const char* TypeNameOf() { return "ascpipe::ServedSnapshot"; }
  tensorflow::string TypeName() const { return TypeNameOf(); }
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(tensorflow::VariantTensorData) { return false; }
  tensorflow::string DebugString() const { return TypeName(); }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SERVED_WATCH_H_
