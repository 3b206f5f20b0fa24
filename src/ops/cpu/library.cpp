#include "ops/library.h"

#include <fmt/core.h>
#include <dnnl.hpp>

namespace syncopate {

std::string cpu_library_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor,
                     version->patch);
}

}  // namespace syncopate
