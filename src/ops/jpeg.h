// JPEG files to pixels in a device's memory, and which files that is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/context.h"

namespace syncopate {

// Whether the context's device decodes batches of `batch` images, faster than
// threads of the host do. False on the CPU, whose decoder is data/'s.
bool can_decode_jpegs(Context& context, int64_t batch);

struct JpegSize {
  int64_t H, W;
};
// The size of a JPEG that every device decodes: whole up to its end marker, 8
// bits, baseline, one scan, Y Cb Cr with chroma at 4:4:4, 4:2:2 or 4:2:0, at
// most 2^26 pixels. Nothing for all others (grey, progressive, CMYK, cut off,
// no JPEG at all): the host's decoder reads or refuses them. Looks at markers
// only (ITU-T T.81, annex B).
std::optional<JpegSize> plain_jpeg_size(std::string_view file);

struct JpegImage {
  std::string_view file;    // in host memory, with a plain size
  JpegSize size;            // that one
  uint8_t* pixels;          // (H, W, 3) RGB in device memory, assigned
  bool is_decoded = false;  // assigned: false where the device refused the file
};
// A file must stay where it is until the stream has passed. A call waits for
// the context's call before. Only for contexts that can_decode_jpegs().
// Pixels differ from those of the host's decoder by the rounding of the inverse
// cosine transform, and where the library has no smooth upsampling in chroma; a
// file whose coded data are damaged inside may pass with wrong pixels, which
// the host's decoder refuses.
void decode_jpegs(Context& context, std::span<JpegImage> images);

}  // namespace syncopate
