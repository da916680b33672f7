#include "core/memory_room.h"

#include <sys/statvfs.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ascpipe {

namespace {

constexpr double kGib = static_cast<double>(1 << 30);
constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;  // version 1 groups write a number near 2**63 for "no limit"

std::string Gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / kGib);
  return text;
}

// Reads the number in a control group's file. Returns false if the file does not exist or contains no number ("max").
bool ReadNumber(const std::string& path, std::int64_t* number) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return false;
  char* end = nullptr;
  *number = std::strtoll(word.c_str(), &end, 10);
  return *end == '\0';
}

// Returns the size of a group's inactive page cache, which the kernel reclaims first.
std::int64_t Reclaimable(const std::string& directory) {
  std::ifstream file(directory + "/memory.stat");
  std::int64_t with_children = -1, own = 0;
  for (std::string line; std::getline(file, line);) {
    long long bytes;
    if (std::sscanf(line.c_str(), "total_inactive_file %lld", &bytes) == 1) with_children = bytes;
    if (std::sscanf(line.c_str(), "inactive_file %lld", &bytes) == 1) own = bytes;
  }
  return with_children >= 0 ? with_children : own;
}

void AddGroup(const std::string& directory, const char* limit_name, const char* used_name,
              std::vector<MemoryRoom>* rooms) {
  std::int64_t limit, used;
  if (!ReadNumber(directory + "/" + limit_name, &limit) || !ReadNumber(directory + "/" + used_name, &used)) return;
  if (limit >= kNoLimit) return;
  used -= Reclaimable(directory);
  if (used < 0) used = 0;
  rooms->push_back({limit - used, Text("the memory limit of the control group is ", Gib(limit), ", used ", Gib(used),
                                       " (", directory, ")")});
}

// Adds the limits of a group and its parents. If `path` does not exist below `root`, as in some containers, `root` is
// the group of this process.
void AddGroups(const std::string& root, const std::string& path, const char* limit_name, const char* used_name,
               std::vector<MemoryRoom>* rooms) {
  std::vector<std::string> folders = {root};
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '/');) {
    if (!part.empty() && part != "..") folders.push_back(folders.back() + "/" + part);
  }
  for (; !folders.empty(); folders.pop_back()) AddGroup(folders.back(), limit_name, used_name, rooms);
}

bool IsAmong(const std::string& list, const std::string& wanted) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

}  // namespace

std::vector<MemoryRoom> MemoryRooms(const MemoryPlaces& places) {
  std::vector<MemoryRoom> rooms;
  std::ifstream groups(places.own_groups);
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      AddGroups(places.group_root, path, "memory.max", "memory.current", &rooms);
      AddGroups(places.group_root + "/unified", path, "memory.max", "memory.current", &rooms);
    } else if (IsAmong(controllers, "memory")) {
      AddGroups(places.group_root + "/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", &rooms);
    }
  }
  std::ifstream meminfo(places.meminfo);
  for (std::string line; std::getline(meminfo, line);) {
    long long kibibytes;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1) {
      const std::int64_t free = std::int64_t{1024} * kibibytes;
      rooms.push_back({free, Text("the machine has ", Gib(free), " available")});
    }
  }
  return rooms;
}

CoreStatus RequireMemory(int fd, std::int64_t bytes, const MemoryPlaces& places) {
  std::vector<MemoryRoom> rooms = MemoryRooms(places);
  struct statvfs system;
  if (fstatvfs(fd, &system) == 0 && system.f_blocks > 0) {  // the file system of a memfd reports 0 blocks
    const std::int64_t unit = static_cast<std::int64_t>(system.f_frsize);
    const std::int64_t free = static_cast<std::int64_t>(system.f_bavail) * unit;
    rooms.push_back({free, Text("/dev/shm has ", Gib(free), " of ",
                                Gib(static_cast<std::int64_t>(system.f_blocks) * unit), " free")});
  }
  bool fits = true;
  std::string text;
  for (const MemoryRoom& room : rooms) {
    fits = fits && room.free_bytes >= bytes + kMarginBytes;
    text += (text.empty() ? "" : ", ") + room.text;
  }
  return fits ? CoreStatus() : CoreStatus(Code::kResourceExhausted, text);
}

}  // namespace ascpipe
