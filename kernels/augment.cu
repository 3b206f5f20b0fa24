#include <algorithm>
#include <cmath>

#include "cuda/pack.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int64_t kAugmentThreads = 256;

struct GatherSizes {
  int64_t rows;           // of all output images: N * H
  int64_t H;              // rows per output image
  unsigned row_elems, C;  // elements per output row: W * C
  int64_t S;              // stored images
  int source_H, source_W;
};

// Outside every image, and within an int.
constexpr float kFar = 1e9f;

// A block computes rows of images, each thread elements of a row in memory
// order, so stores are coalesced; the threads of the C channels of a pixel read
// adjacent bytes. A map to a nonexistent image gives NaN.
template <typename Pixel>
__global__ void __launch_bounds__(kAugmentThreads)
    gather_images_kernel(float* images,        // (N, H, W, C)
                         const Pixel* pixels,  // (S, H', W', C)
                         const float* scale,   // (C)
                         const float* shift,   // (C)
                         const ImageMap* maps,
                         GatherSizes sizes) {
  const unsigned channels = sizes.C, row_elems = sizes.row_elems;
  const int width = sizes.source_W, height = sizes.source_H;
  for (int64_t row = blockIdx.x; row < sizes.rows; row += gridDim.x) {
    const ImageMap map = maps[row / sizes.H];
    const bool is_stored = map.image >= 0 && map.image < sizes.S;
    const Pixel* image = pixels + (is_stored ? map.image : int64_t{0}) *
                                      height * width * channels;
    const auto y = static_cast<float>(row % sizes.H);
    for (unsigned elem = threadIdx.x; elem < row_elems; elem += blockDim.x) {
      const unsigned c = elem % channels;
      const auto x = static_cast<float>(elem / channels);
      const float u = map.m[0] * x + map.m[1] * y + map.m[2];
      const float v = map.m[3] * x + map.m[4] * y + map.m[5];
      const float u0 = floorf(u), v0 = floorf(v);
      const float du = u - u0, dv = v - v0;
      const int left = static_cast<int>(fminf(fmaxf(u0, -kFar), kFar));
      const int above = static_cast<int>(fminf(fmaxf(v0, -kFar), kFar));
      float sum = is_stored ? 0.0f : NAN;
      for (int tap = 0; tap < 4; ++tap) {
        const bool right = tap & 1, below = tap & 2;
        const float weight = (right ? du : 1 - du) * (below ? dv : 1 - dv);
        // A weight of 0 reads nothing, so shifts by whole pixels are exact.
        if (weight == 0 || !is_stored) continue;
        int column = left + right;
        int line = above + below;
        if (map.outside == Outside::kNearest) {
          column = std::clamp(column, 0, width - 1);
          line = std::clamp(line, 0, height - 1);
        } else if (column < 0 || column >= width || line < 0 ||
                   line >= height) {
          if (map.outside == Outside::kBlack) sum += weight * shift[c];
          continue;
        }
        const auto pixel = static_cast<float>(
            image[(int64_t{line} * width + column) * channels + c]);
        sum += weight * (pixel * scale[c] + shift[c]);
      }
      images[row * row_elems + elem] = sum;
    }
  }
}

void gather_images(Context& context,
                   Tensor images,
                   ConstTensor pixels,
                   ConstTensor scale,
                   ConstTensor shift,
                   const ImageMap* maps) {
  if (images.elems() == 0) return;
  const Shape& shape = images.shape;
  const int64_t row_elems = shape[3] * shape[1];
  // Positions in a row and in an image are ints.
  CHECK(row_elems < static_cast<int64_t>(kFar) &&
        pixels.shape[1] < static_cast<int64_t>(kFar) &&
        pixels.shape[2] < static_cast<int64_t>(kFar));
  const GatherSizes sizes{.rows = shape[0] * shape[2],
                          .H = shape[2],
                          .row_elems = static_cast<unsigned>(row_elems),
                          .C = static_cast<unsigned>(shape[1]),
                          .S = pixels.shape[0],
                          .source_H = static_cast<int>(pixels.shape[1]),
                          .source_W = static_cast<int>(pixels.shape[2])};
  const int64_t threads =
      std::min(ceil_div(row_elems, kWarpSize) * kWarpSize, kAugmentThreads);
  const dim3 grid(grid_for(sizes.rows, 1));
  const dim3 block(static_cast<unsigned>(threads));
  const auto start = [&](auto kernel, auto* stored) {
    launch(kernel, grid, block, 0, context.stream(), images.f32(), stored,
           scale.f32(), shift.f32(), maps, sizes);
  };
  if (pixels.dtype == DType::kU8)
    start(gather_images_kernel<uint8_t>,
          static_cast<const uint8_t*>(pixels.data));
  else
    start(gather_images_kernel<float>, pixels.f32());
}

}  // namespace syncopate::cuda
