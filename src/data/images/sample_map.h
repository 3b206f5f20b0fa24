// Affine maps from output pixels to stored pixels. Crop, flip, rotation,
// resizing and their compositions are such maps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "data/batch.h"
#include "tensor/image_map.h"

namespace syncopate {

// An ImageMap in double precision, for composition.
struct Affine {
  double m[6] = {1, 0, 0, 0, 1, 0};

  // Applies `inner` first, then this: output -> inner -> stored.
  Affine after(const Affine& inner) const;
  ImageMap to_map(int64_t image, Outside outside) const;
};

// The box of stored pixels [x, x + w) x [y, y + h), to be read as H x W pixels.
// Pixel centres lie at half-integers, as in torchvision and OpenCV.
struct CropBox {
  double x = 0, y = 0, w = 0, h = 0;
};
Affine read_box(const CropBox& box, int64_t H, int64_t W);

// u = x + dx, v = y + dy.
Affine shifted(double dx, double dy);
// Mirrors an image of width W left to right.
Affine mirrored(int64_t W);
// out(p) = in(R(-radians) (p - middle) + middle) of an image of H x W.
Affine rotated(double radians, int64_t H, int64_t W);

// Resizes the shorter side of the stored image to `resize` pixels (0: no
// resizing) and takes the central H x W pixels, at whole pixel positions.
Affine evaluation_view(int64_t stored_H,
                       int64_t stored_W,
                       int64_t resize,
                       int64_t H,
                       int64_t W);

// Random-resized crop (Szegedy et al., "Going deeper with convolutions",
// section 6; drawn as in torchvision's RandomResizedCrop). Up to ten tries draw
// an area from [area_min, 1] of the image and an aspect ratio w / h from
// [3/4, 4/3] with a uniform logarithm, rounded to whole pixels. The first box
// that fits is placed uniformly. If none fits, the result is the largest
// central box whose ratio lies in the range.
CropBox draw_crop_box(Rng& rng,
                      double area_min,
                      int64_t stored_H,
                      int64_t stored_W);

}  // namespace syncopate
