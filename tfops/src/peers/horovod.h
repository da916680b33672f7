// Transport over Horovod's alltoall. C++ code calls the alltoall directly, so no op in a TensorFlow graph is needed.
#ifndef ASCPIPE_PEERS_HOROVOD_H_
#define ASCPIPE_PEERS_HOROVOD_H_

#include <memory>
#include <string>

#include "peers/transport.h"

namespace ascpipe {

class HorovodTransport {
 public:
  // Creates the transport. `library` is the path of the Horovod library that this process has loaded and initialized.
  // ascpipe is not linked to the Horovod library.
  static CoreStatus Make(const std::string& library, int rank, int size, std::unique_ptr<Transport>* transport);
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_HOROVOD_H_
