#include "base/memory_left.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "base/check.h"

namespace syncopate {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Returns the number after `name` in a file of lines "NAME NUMBER [kB]", in
// bytes if the unit is kB.
std::optional<int64_t> field(const fs::path& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string first, unit;
    int64_t number = 0;
    if (!(words >> first >> number) || first != name) continue;
    words >> unit;
    return unit == "kB" ? number * 1024 : number;
  }
  return std::nullopt;
}

// Returns the number in a file, or nullopt if there is no such file or it
// holds "max".
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

// Returns the bytes that a group may still use. File pages, such as those of
// data just read, count as free because the kernel reclaims them on demand.
// (Pages of tmpfs are in neither count and are not reclaimed.)
int64_t left_in(const fs::path& folder,
                const char* limit_file,
                const char* usage_file,
                const std::string& prefix) {
  const auto limit = number_in(folder / limit_file);
  const auto usage = number_in(folder / usage_file);
  if (!limit || !usage) return kNoLimit;
  int64_t returned = 0;
  for (const char* pages : {"inactive_file", "active_file"})
    returned += field(folder / "memory.stat", prefix + pages).value_or(0);
  // The files are read one after the other, so `returned` may exceed `usage`.
  // In version 1, the largest number means no limit.
  const int64_t held = std::max<int64_t>(0, *usage - returned);
  return std::max<int64_t>(0, *limit - held);
}

int64_t left_in_rlimit(int resource, const char* used_field) {
  rlimit limit = {};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return kNoLimit;
  const int64_t used = field("/proc/self/status", used_field).value_or(0);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

// Lines of `membership`: "0::/a/b" (version 2) and "4:memory:/a/b" (version 1).
// All parent groups have limits too. Inside a container the path may belong to
// a tree that is not mounted there; the mounted root then sets the limit.
MemoryLeft cgroup_memory_left(const fs::path& membership,
                              const fs::path& mounted) {
  int64_t least = kNoLimit;
  std::ifstream stream(membership);
  for (std::string line; std::getline(stream, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_second = controllers.empty();
    if (!is_second && controllers != "memory") continue;
    const fs::path root = is_second ? mounted : mounted / "memory";
    fs::path group = line.substr(second + 1);
    for (;; group = group.parent_path()) {
      const fs::path folder = root / group.relative_path();
      least = std::min(
          least, is_second ? left_in(folder, "memory.max", "memory.current", "")
                           : left_in(folder, "memory.limit_in_bytes",
                                     "memory.usage_in_bytes", "total_"));
      if (!group.has_relative_path()) break;
    }
  }
  return {least, "the limit of its control group"};
}

MemoryLeft host_memory_left(int processes) {
  MemoryLeft shared = cgroup_memory_left("/proc/self/cgroup", "/sys/fs/cgroup");
  const int64_t available =
      field("/proc/meminfo", "MemAvailable:").value_or(kNoLimit);
  if (available < shared.bytes) shared = {available, "the memory of this host"};
  shared.bytes /= std::max(1, processes);
  const MemoryLeft own[] = {
      {left_in_rlimit(RLIMIT_AS, "VmSize:"), "ulimit -v", true},
      {left_in_rlimit(RLIMIT_DATA, "VmData:"), "ulimit -d"}};
  MemoryLeft least = shared;
  for (const MemoryLeft& limit : own)
    if (limit.bytes < least.bytes) least = limit;
  return least;
}

int64_t peak_memory_bytes() {
  rusage usage{};
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace syncopate
