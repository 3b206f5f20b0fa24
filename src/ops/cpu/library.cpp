#include "ops/library.h"

#include <fmt/core.h>
#include <dnnl.hpp>

namespace syncopate {

std::string cpu_library_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor,
                     version->patch);
}

bool cpu_has_bf16_tiles() {
  // An instruction set has the bits of all that it contains.
  const auto bits = [](dnnl::cpu_isa isa) {
    return static_cast<unsigned>(isa);
  };
  constexpr auto kTiles = dnnl::cpu_isa::avx512_core_amx;
  static const unsigned kEffective = bits(dnnl::get_effective_cpu_isa());
  return (kEffective & bits(kTiles)) == bits(kTiles);
}

}  // namespace syncopate
