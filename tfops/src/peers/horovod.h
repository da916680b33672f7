// The transport by Horovod: its alltoall, called in C++, so that no session or graph waits in it.
#ifndef ASCPIPE_PEERS_HOROVOD_H_
#define ASCPIPE_PEERS_HOROVOD_H_

#include <memory>
#include <string>

#include "peers/transport.h"

namespace ascpipe {

class HorovodTransport {
 public:
  // `library`: Horovod's, which this process has loaded and initialised.  No ascpipe library is linked against it.
  static CoreStatus Make(const std::string& library, int rank, int size, std::unique_ptr<Transport>* transport);
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_HOROVOD_H_
