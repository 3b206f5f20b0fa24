#include "ops/bodies.h"

namespace syncopate::cpu {

// The host decodes in data/, file by file.
bool can_decode_jpegs(Context&, int64_t) {
  return false;
}

void decode_jpegs(Context&, std::span<JpegImage>) {
  CHECK_MSG(false, "a device without a JPEG decoder");
}

}  // namespace syncopate::cpu
