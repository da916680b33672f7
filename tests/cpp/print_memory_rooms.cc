// Prints the available memory: "free_bytes text" for each limit.  The arguments name the files and the folder of
// MemoryPlaces.
#include <cinttypes>
#include <cstdio>

#include "core/memory_room.h"

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const ascpipe::MemoryPlaces places{arguments[1], arguments[2], arguments[3]};
  for (const ascpipe::MemoryRoom& room : ascpipe::MemoryRooms(places)) {
    std::printf("%" PRId64 " %s\n", room.free_bytes, room.text.c_str());
  }
  return 0;
}
