// Transport over Horovod's alltoall. It is called from C++, so that no session or graph waits in it.
#ifndef ASCPIPE_PEERS_HOROVOD_H_
#define ASCPIPE_PEERS_HOROVOD_H_

#include <memory>
#include <string>

#include "peers/transport.h"

namespace ascpipe {

class HorovodTransport {
 public:
  // `library`: path of the Horovod library that this process has loaded and initialised. ascpipe does not link to it.
  static CoreStatus Make(const std::string& library, int rank, int size, std::unique_ptr<Transport>* transport);
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_HOROVOD_H_
