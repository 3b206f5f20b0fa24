#include "reference/image_map.h"

#include <algorithm>
#include <cmath>

namespace syncopate::reference {

double read_pixel(const StoredImages& stored,
                  const PixelMap& map,
                  int64_t x,
                  int64_t y,
                  int64_t c) {
  const auto value_at = [&](int64_t column, int64_t row) {
    const int64_t W = stored.W, H = stored.H;
    if (map.beside == Beside::kNearest) {
      column = std::clamp<int64_t>(column, 0, W - 1);
      row = std::clamp<int64_t>(row, 0, H - 1);
    }
    if (column < 0 || column >= W || row < 0 || row >= H)
      return map.beside == Beside::kZeroPixel ? stored.shift[c] : 0.0;
    return stored.pixels[((map.image * H + row) * W + column) * stored.C + c] *
               stored.scale[c] +
           stored.shift[c];
  };
  const auto across = static_cast<double>(x), down = static_cast<double>(y);
  const double u = map.m[0] * across + map.m[1] * down + map.m[2];
  const double v = map.m[3] * across + map.m[4] * down + map.m[5];
  const auto left = static_cast<int64_t>(std::floor(u));
  const auto above = static_cast<int64_t>(std::floor(v));
  const double du = u - std::floor(u), dv = v - std::floor(v);
  double sum = 0;
  for (const int64_t right : {0, 1})
    for (const int64_t below : {0, 1}) {
      const double weight = (right ? du : 1 - du) * (below ? dv : 1 - dv);
      if (weight != 0) sum += weight * value_at(left + right, above + below);
    }
  return sum;
}

}  // namespace syncopate::reference
