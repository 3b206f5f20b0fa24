// The keys of [compress].
#include "compress/compressor.h"
#include "keys/key.h"

namespace syncopate {

Keys compressor_keys() {
  const std::vector<UsedWhen> sparse = {
      {"compress.kind", {"top_k", "random_k"}}};
  const std::vector<UsedWhen> qsgd = {{"compress.kind", {"qsgd"}}};
  return {
      {.name = "compress.kind",
       .place = &CompressOptions::kind,
       .doc = "The compressor. If this key is not given, sync.scheme = dgc "
              "uses top_k.",
       .choices = keywords(compressor_table())},
      {.name = "compress.ratio",
       .place = &CompressOptions::ratio,
       .doc = "Fraction of each tensor's elements that is dropped.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = sparse},
      {.name = "compress.bits",
       .place = &CompressOptions::bits,
       .doc = "Bits of a quantized value in addition to its sign: "
              "2^bits - 1 levels.",
       .low = 1,
       .high = 16,
       .used_when = qsgd},
      {.name = "compress.levels",
       .place = &CompressOptions::levels,
       .doc = "Number of levels, instead of bits; 0: given by bits.",
       .low = 0,
       .high = 65535,
       .used_when = qsgd},
      {.name = "compress.biased",
       .place = &CompressOptions::biased,
       .doc = "Whether qsgd is scaled down, and random_k is not scaled "
              "up, so that they are contractions.",
       .used_when = {{"compress.kind", {"random_k", "qsgd"}}}},
  };
}

}  // namespace syncopate
