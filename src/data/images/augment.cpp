#include "data/images/augment.h"

#include <algorithm>
#include <numbers>

#include "base/check.h"
#include "base/rng.h"
#include "data/images/normalization.h"

namespace syncopate {

Augmenter::Augmenter(const DataOptions& options,
                     const ImageSet& set,
                     const Normalization& normalization,
                     uint64_t seed)
    : set_(set), reader_(set, normalization), seed_(seed) {
  bool has_crop = false, has_resized_crop = false;
  for (const std::string& kind : options.augment) {
    if (kind == "crop")
      has_crop = true;
    else if (kind == "flip")
      has_flip_ = true;
    else if (kind == "rotate")
      degrees_ = options.rotate_degrees;
    else if (kind == "resized_crop")
      has_resized_crop = true;
    else
      fail(ExitCode::kBadInput,
           "data.augment: {}, expected some of crop flip rotate resized_crop",
           kind);
  }
  if (has_crop && has_resized_crop)
    fail(ExitCode::kBadInput,
         "data.augment: crop and resized_crop, expected one of them");
  if (has_crop) pad_ = options.crop_pad;
  const int64_t side = std::min(set.spec.H, set.spec.W);
  if (pad_ < 0 || pad_ >= side)
    fail(ExitCode::kBadInput,
         "data.crop_pad: {}, expected 0 to {} for images of {} x {}", pad_,
         side - 1, set.spec.H, set.spec.W);
  if (!(degrees_ >= 0 && degrees_ <= 180))
    fail(ExitCode::kBadInput, "data.rotate_degrees: {}, expected 0 to 180",
         degrees_);
  if (pad_ > 0 || degrees_ > 0)
    outside_ =
        options.fill == FillColour::kBlack ? Outside::kBlack : Outside::kMean;
  if (!has_resized_crop) return;
  crop_scale_min_ = options.crop_scale_min;
  if (!(crop_scale_min_ > 0 && crop_scale_min_ <= 1))
    fail(ExitCode::kBadInput,
         "data.crop_scale_min: {}, expected more than 0 and at most 1",
         crop_scale_min_);
}

ImageMap Augmenter::map(int64_t epoch, int64_t sample) const {
  const ImageSet::Resident stored = set_.resident();
  CHECK(stored.H > 0);
  return map(epoch, sample, stored.H, stored.W);
}

ImageMap Augmenter::map(int64_t epoch,
                        int64_t sample,
                        int64_t H,
                        int64_t W) const {
  const ImageSpec& spec = set_.spec;
  Rng rng(seed_, Purpose::kAugment, static_cast<uint64_t>(epoch),
          static_cast<uint64_t>(sample));
  const auto offsets = static_cast<uint64_t>(2 * pad_ + 1);
  // Draw all values even if unused, so that the draws stay independent.
  const int64_t dy = static_cast<int64_t>(rng.below(offsets)) - pad_;
  const int64_t dx = static_cast<int64_t>(rng.below(offsets)) - pad_;
  const bool coin = (rng.next_u32() & 1) != 0;
  const double turn = 2 * rng.uniform() - 1;

  Affine view =
      crop_scale_min_ > 0
          ? read_box(draw_crop_box(rng, crop_scale_min_, H, W), spec.H, spec.W)
          : evaluation_view(H, W, set_.eval_resize, spec.H, spec.W);
  if (pad_ > 0)
    view =
        view.after(shifted(static_cast<double>(dx), static_cast<double>(dy)));
  if (has_flip_ && coin) view = view.after(mirrored(spec.W));
  if (degrees_ > 0)
    view = view.after(
        rotated(turn * degrees_ * std::numbers::pi / 180, spec.H, spec.W));
  return view.to_map(sample, outside_);
}

void Augmenter::fill(int64_t epoch, int64_t sample, float* out) const {
  reader_.fill(
      sample, [&](int64_t H, int64_t W) { return map(epoch, sample, H, W); },
      out);
}

}  // namespace syncopate
