// Decodes JPEG files into device memory, and selects the files it can decode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/context.h"

namespace syncopate {

// Whether the context's device decodes batches of `batch` images, and faster
// than host threads do. False on the CPU, whose decoder is in data/.
bool can_decode_jpegs(Context& context, int64_t batch);

struct JpegSize {
  int64_t H, W;
};
// Returns the size of a JPEG that every device decodes: complete up to its end
// marker, 8 bits, baseline, one scan, Y Cb Cr with chroma at 4:4:4, 4:2:2 or
// 4:2:0, at most 2^26 pixels. nullopt for all others (grey, progressive, CMYK,
// truncated, not a JPEG at all): the host's decoder reads or rejects them.
// Checks markers only (ITU-T T.81, annex B).
std::optional<JpegSize> plain_jpeg_size(std::string_view file);

struct JpegImage {
  std::string_view file;    // in host memory
  JpegSize size;            // as plain_jpeg_size() returns it
  uint8_t* pixels;          // (H, W, 3) RGB in device memory, assigned
  bool is_decoded = false;  // assigned: false if the device rejected the file
};
// Files must stay in place until the stream has passed this call. A call waits
// for the context's previous call. Requires can_decode_jpegs(). Pixels differ
// from those of the host's decoder by the rounding of the inverse cosine
// transform and, if the library has no smooth upsampling, in chroma. A file
// with damaged coded data may decode to wrong pixels where the host's decoder
// would reject it.
void decode_jpegs(Context& context, std::span<JpegImage> images);

}  // namespace syncopate
