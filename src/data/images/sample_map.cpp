#include "data/images/sample_map.h"

#include <algorithm>
#include <cmath>

namespace syncopate {

Affine Affine::after(const Affine& inner) const {
  const double* a = m;
  const double* b = inner.m;
  return {{a[0] * b[0] + a[1] * b[3], a[0] * b[1] + a[1] * b[4],
           a[0] * b[2] + a[1] * b[5] + a[2], a[3] * b[0] + a[4] * b[3],
           a[3] * b[1] + a[4] * b[4], a[3] * b[2] + a[4] * b[5] + a[5]}};
}

ImageMap Affine::to_map(int64_t image, Outside outside) const {
  ImageMap map{};
  for (int i = 0; i < 6; ++i) map.m[i] = static_cast<float>(m[i]);
  map.image = static_cast<int32_t>(image);
  map.outside = outside;
  return map;
}

Affine read_box(const CropBox& box, int64_t H, int64_t W) {
  const double across = box.w / static_cast<double>(W);
  const double down = box.h / static_cast<double>(H);
  return {
      {across, 0, across / 2 + box.x - 0.5, 0, down, down / 2 + box.y - 0.5}};
}

Affine shifted(double dx, double dy) {
  return {{1, 0, dx, 0, 1, dy}};
}

Affine mirrored(int64_t W) {
  return {{-1, 0, static_cast<double>(W - 1), 0, 1, 0}};
}

Affine rotated(double radians, int64_t H, int64_t W) {
  const double cosine = std::cos(radians), sine = std::sin(radians);
  const double middle_x = static_cast<double>(W - 1) / 2;
  const double middle_y = static_cast<double>(H - 1) / 2;
  return {{cosine, sine, middle_x - cosine * middle_x - sine * middle_y, -sine,
           cosine, middle_y + sine * middle_x - cosine * middle_y}};
}

Affine evaluation_view(int64_t stored_H,
                       int64_t stored_W,
                       int64_t resize,
                       int64_t H,
                       int64_t W) {
  const auto height = static_cast<double>(stored_H);
  const auto width = static_cast<double>(stored_W);
  const double stored_pixels =  // per resized one
      resize > 0 ? std::min(height, width) / static_cast<double>(resize) : 1;
  const double left =
      std::floor((width / stored_pixels - static_cast<double>(W)) / 2 + 0.5);
  const double top =
      std::floor((height / stored_pixels - static_cast<double>(H)) / 2 + 0.5);
  return read_box({.x = left * stored_pixels,
                   .y = top * stored_pixels,
                   .w = static_cast<double>(W) * stored_pixels,
                   .h = static_cast<double>(H) * stored_pixels},
                  H, W);
}

CropBox draw_crop_box(Rng& rng,
                      double area_min,
                      int64_t stored_H,
                      int64_t stored_W) {
  constexpr int kTries = 10;
  constexpr double kRatioMin = 3.0 / 4, kRatioMax = 4.0 / 3;
  const auto height = static_cast<double>(stored_H);
  const auto width = static_cast<double>(stored_W);
  const double log_min = std::log(kRatioMin), log_max = std::log(kRatioMax);
  for (int i = 0; i < kTries; ++i) {
    const double area =
        height * width * (area_min + (1 - area_min) * rng.uniform());
    const double ratio =
        std::exp(log_min + (log_max - log_min) * rng.uniform());
    const double w = std::nearbyint(std::sqrt(area * ratio));
    const double h = std::nearbyint(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto y = rng.below(static_cast<uint64_t>(height - h) + 1);
    const auto x = rng.below(static_cast<uint64_t>(width - w) + 1);
    return {static_cast<double>(x), static_cast<double>(y), w, h};
  }
  double w = width, h = height;
  if (width / height < kRatioMin)
    h = std::max(1.0, std::nearbyint(w / kRatioMin));
  else if (width / height > kRatioMax)
    w = std::max(1.0, std::nearbyint(h * kRatioMax));
  return {std::floor((width - w) / 2), std::floor((height - h) / 2), w, h};
}

}  // namespace syncopate
