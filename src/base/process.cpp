#include "base/process.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace syncopate {
namespace {

// A barrier of a training step takes less than this many turns of libgomp's
// loop (0.2 to 0.5 ms) where each thread has a core.
constexpr const char* kSpinCount = "10000";

bool is_on_valgrind() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && std::string_view(preloaded).find(
                                     "vgpreload") != std::string_view::npos;
}

}  // namespace

bool is_traced() {
  FILE* const file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return false;
  char line[256];
  int tracer = 0;
  while (std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "TracerPid: %d", &tracer) == 1) break;
  std::fclose(file);
  return tracer != 0;
}

void arrange_openmp_waiting(char** argv) {
  for (const char* setting : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"})
    if (std::getenv(setting) != nullptr) return;
  if (is_traced() || is_on_valgrind()) return;
  // By its path, because ps would show /proc/self/exe as "exe".
  std::error_code obstacle;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", obstacle);
  if (obstacle) return;
  ::setenv("GOMP_SPINCOUNT", kSpinCount, 0);
  ::execv(program.c_str(), argv);  // if this fails, go on as started
}

}  // namespace syncopate
