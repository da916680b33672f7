// Conversion of CoreStatus to TensorFlow's Status.
#ifndef ASCPIPE_BRIDGE_STATUS_H_
#define ASCPIPE_BRIDGE_STATUS_H_

#include "bridge/compatibility.h"
#include "core/core_status.h"

namespace ascpipe {

inline tensorflow::Status ToStatus(const CoreStatus& status) {
  if (status.ok()) return OkStatus();
  return tensorflow::Status(static_cast<StatusCode>(status.code()), status.text());
}

// Returns an error. `code` is a Code, or an ErrorCode of core/error_codes.gen.h.
template <typename Any, typename... Parts>
tensorflow::Status Refuse(const Any& code, const Parts&... parts) {
  return ToStatus(Error(code, parts...));
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STATUS_H_
