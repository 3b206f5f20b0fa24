#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace syncopate {

void fail_errno(ExitCode code,
                const std::string& path,
                const std::string& what) {
  const int saved = errno;
  fail(code, "{}: {}: {}", path, what, std::strerror(saved));
}

}  // namespace syncopate
