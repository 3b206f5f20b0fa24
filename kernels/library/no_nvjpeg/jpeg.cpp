// The build without nvJPEG's header: the host decodes.
#include "base/check.h"
#include "ops/bodies.h"

namespace syncopate::cuda {

bool can_decode_jpegs(Context&, int64_t) {
  return false;
}

void decode_jpegs(Context&, std::span<JpegImage>) {
  CHECK_MSG(false, "this executable was built without nvJPEG");
}

}  // namespace syncopate::cuda
