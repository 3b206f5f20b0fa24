#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

struct Source {
  int64_t C, H, W;
};

// Adds weight * (pixel * scale + shift) at (u, v) of an image to out (C).
template <typename Pixel>
void add_tap(float* out,
             const Pixel* image,
             const Source& s,
             int64_t u,
             int64_t v,
             float weight,
             Outside outside,
             const float* scale,
             const float* shift) {
  if (outside == Outside::kNearest) {
    u = std::clamp<int64_t>(u, 0, s.W - 1);
    v = std::clamp<int64_t>(v, 0, s.H - 1);
  } else if (u < 0 || u >= s.W || v < 0 || v >= s.H) {
    if (outside == Outside::kBlack)
      for (int64_t c = 0; c < s.C; ++c) out[c] += weight * shift[c];
    return;
  }
  const Pixel* pixel = image + (v * s.W + u) * s.C;
  for (int64_t c = 0; c < s.C; ++c)
    out[c] += weight * (static_cast<float>(pixel[c]) * scale[c] + shift[c]);
}

template <typename Pixel>
void gather_row(float* out,
                int64_t W,
                int64_t y,
                const Pixel* pixels,
                const Source& s,
                const float* scale,
                const float* shift,
                const ImageMap& map) {
  const Pixel* image = pixels + map.image * s.H * s.W * s.C;
  const auto fy = static_cast<float>(y);
  for (int64_t x = 0; x < W; ++x, out += s.C) {
    const auto fx = static_cast<float>(x);
    const float u = map.m[0] * fx + map.m[1] * fy + map.m[2];
    const float v = map.m[3] * fx + map.m[4] * fy + map.m[5];
    const float u0 = std::floor(u), v0 = std::floor(v);
    const float du = u - u0, dv = v - v0;
    for (int64_t c = 0; c < s.C; ++c) out[c] = 0;
    for (int tap = 0; tap < 4; ++tap) {
      const bool right = tap & 1, below = tap & 2;
      const float weight = (right ? du : 1 - du) * (below ? dv : 1 - dv);
      // Skip taps of weight 0, so that a shift by whole pixels is exact.
      if (weight != 0)
        add_tap(out, image, s, static_cast<int64_t>(u0) + right,
                static_cast<int64_t>(v0) + below, weight, map.outside, scale,
                shift);
    }
  }
}

}  // namespace

void gather_images(Context& context,
                   Tensor images,
                   ConstTensor pixels,
                   ConstTensor scale,
                   ConstTensor shift,
                   const ImageMap* maps) {
  const int64_t N = images.shape[0], C = images.shape[1];
  const int64_t H = images.shape[2], W = images.shape[3];
  const Source source{C, pixels.shape[1], pixels.shape[2]};
  for (int64_t n = 0; n < N; ++n)
    CHECK_MSG(maps[n].image >= 0 && maps[n].image < pixels.shape[0],
              "image {} of {}", maps[n].image, pixels.shape[0]);
  const auto gather = [&](auto* stored) {
    // Each pixel has four taps.
    parallel_for(context, N * H, images.elems() * 4, [&](int64_t row) {
      gather_row(images.f32() + row * W * C, W, row % H, stored, source,
                 scale.f32(), shift.f32(), maps[row / H]);
    });
  };
  if (pixels.dtype == DType::kU8)
    gather(static_cast<const uint8_t*>(pixels.data));
  else
    gather(pixels.f32());
}

}  // namespace syncopate::cpu
