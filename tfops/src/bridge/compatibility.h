// Differences between the C++ interfaces of TensorFlow 1.15 and 2.15. Only this file may depend on the version of
// TensorFlow.
#ifndef ASCPIPE_BRIDGE_COMPATIBILITY_H_
#define ASCPIPE_BRIDGE_COMPATIBILITY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "core/bags.h"
#include "google/protobuf/stubs/common.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/core/util/example_proto_helper.h"
#if TF_MAJOR_VERSION >= 2
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#else
#include "tensorflow/core/common_runtime/function.h"
#endif

namespace ascpipe {

#if TF_MAJOR_VERSION >= 2
using StatusCode = absl::StatusCode;
using TensorString = tensorflow::tstring;  // element of a string tensor
constexpr SumOrder kSumOrder = SumOrder::kTensorFlow2;
constexpr bool kLosesSigns = false;  // see CsvOptions::loses_signs

inline std::string MessageOf(const tensorflow::Status& status) { return std::string(status.message()); }
#else
using StatusCode = tensorflow::error::Code;
using TensorString = std::string;  // element of a string tensor
constexpr SumOrder kSumOrder = SumOrder::kTensorFlow1;
constexpr bool kLosesSigns = true;  // see CsvOptions::loses_signs

inline std::string MessageOf(const tensorflow::Status& status) { return status.error_message(); }
#endif

inline tensorflow::Status OkStatus() { return tensorflow::Status(); }

// Returns a text that Python can decode. If `text` is not UTF-8, the bytes outside ASCII become escape sequences.
inline std::string Printable(const std::string& text) {
  const bool is_utf8 = google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()));
  return is_utf8 ? text : absl::CEscape(text);
}

// Reads the attributes of a ParseExample op.
inline tensorflow::Status InitParseExample(tensorflow::OpKernelConstruction* construction,
                                           tensorflow::ParseExampleAttrs* attrs) {
#if TF_MAJOR_VERSION >= 2
  return attrs->Init(construction, 1);
#else
  return attrs->Init(construction);
#endif
}

// Creates the graph of a function.
inline tensorflow::Status BodyOf(const std::string& function, const tensorflow::FunctionLibraryDefinition& library,
                                 std::unique_ptr<tensorflow::FunctionBody>* body) {
  const tensorflow::FunctionDef* const definition = library.Find(function);
  if (definition == nullptr) return tensorflow::errors::NotFound("function ", function);
  return tensorflow::FunctionDefToBodyHelper(*definition, tensorflow::AttrSlice(), &library, body);
}

// Returns the resource `name` of the step container of `ctx`, and creates the resource on the first call in a step.
// TensorFlow destroys the resource at the end of the step. The caller owns one reference.
template <typename Resource>
tensorflow::Status LookupOrCreateInStep(tensorflow::OpKernelContext* ctx, const std::string& name, Resource** resource,
                                        std::function<tensorflow::Status(Resource**)> create) {
#if TF_MAJOR_VERSION >= 2
  // In TensorFlow 2.15, only LookupOrCreate of a step container marks the container for cleanup.
  return ctx->step_container()->LookupOrCreate(ctx->resource_manager(), name, resource, std::move(create));
#else
  return ctx->resource_manager()->LookupOrCreate<Resource>(ctx->step_container()->name(), name, resource,
                                                           std::move(create));
#endif
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_COMPATIBILITY_H_
