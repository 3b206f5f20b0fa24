#include "ops/library.h"

#include <fmt/core.h>
#include <dnnl.hpp>

namespace syncopate {

std::string cpu_library_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor,
                     version->patch);
}

// Whether oneDNN uses `isa` here: the bits of an instruction set include those
// of all sets it contains.
static bool uses(dnnl::cpu_isa isa) {
  const auto bits = [](dnnl::cpu_isa of) { return static_cast<unsigned>(of); };
  static const unsigned kEffective = bits(dnnl::get_effective_cpu_isa());
  return (kEffective & bits(isa)) == bits(isa);
}

bool cpu_has_bf16_tiles() {
  return uses(dnnl::cpu_isa::avx512_core_amx);
}

bool cpu_has_blocks_of_16() {
  return uses(dnnl::cpu_isa::avx512_core);
}

}  // namespace syncopate
