// How one sample is seen: an affine map from output pixels to stored ones,
// which crop, flip, rotation and resizing all are, and their composition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "data/batch.h"
#include "tensor/image_map.h"

namespace syncopate {

// An ImageMap in doubles, for composing.
struct Affine {
  double m[6] = {1, 0, 0, 0, 1, 0};

  // First `inner`, then this: output -> inner -> stored.
  Affine after(const Affine& inner) const;
  ImageMap to_map(int64_t image, bool is_clamped) const;
};

// Reads a box of stored pixels [x, x + w) x [y, y + h) as H x W pixels:
// centres of pixels are half a pixel inside (half-pixel convention of
// torchvision and OpenCV).
struct CropBox {
  double x = 0, y = 0, w = 0, h = 0;
};
Affine read_box(const CropBox& box, int64_t H, int64_t W);

// u = x + dx, v = y + dy.
Affine shifted(double dx, double dy);
// Left to right in an image of width W.
Affine mirrored(int64_t W);
// out(p) = in(R(-radians) (p - middle) + middle) of an image of H x W.
Affine rotated(double radians, int64_t H, int64_t W);

// Shorter side of the stored image to `resize` pixels, then the middle H x W
// of it, at whole pixels. resize = 0: at stored size.
Affine evaluation_view(int64_t stored_H,
                       int64_t stored_W,
                       int64_t resize,
                       int64_t H,
                       int64_t W);

// Random-resized crop (Szegedy et al., "Going deeper with convolutions",
// section 6; drawn as torchvision's RandomResizedCrop does): up to ten times,
// an area of area_min to 1 of the image, a ratio w / h of 3/4 to 4/3 whose
// logarithm is uniform, whole pixels; the first that fits goes to a uniform
// place. If none fits: the largest middle box with a ratio in the range.
CropBox draw_crop_box(Rng& rng,
                      double area_min,
                      int64_t stored_H,
                      int64_t stored_W);

}  // namespace syncopate
