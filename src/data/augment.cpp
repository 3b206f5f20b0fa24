#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/rng.h"

namespace syncopate {
namespace {

// One output row: `from` is the first pixel of the source row.
template <typename Pixel, typename Value>
void fill_row(const Pixel* from,
              const ImageSpec& spec,
              const Normalizer::View& view,
              const Value& value,
              float* out) {
  const int64_t W = spec.W, C = spec.C;
  // x + dx within [0, W) for the unmirrored x.
  const int64_t begin = std::clamp<int64_t>(-view.dx, 0, W);
  const int64_t end = std::clamp<int64_t>(W - view.dx, begin, W);
  const int64_t zeros_left = view.is_mirrored ? W - end : begin;
  std::fill_n(out, zeros_left * C, 0.0F);
  out += zeros_left * C;
  const int64_t step = view.is_mirrored ? -C : C;
  const Pixel* pixel =
      from + ((view.is_mirrored ? end - 1 : begin) + view.dx) * C;
  for (int64_t x = begin; x < end; ++x, pixel += step)
    for (int64_t c = 0; c < C; ++c) *out++ = value(pixel[c], c);
  std::fill_n(out, (W - (end - begin) - zeros_left) * C, 0.0F);
}

template <typename Pixel, typename Value>
void fill_image(const Pixel* image,
                const ImageSpec& spec,
                const Normalizer::View& view,
                const Value& value,
                float* out) {
  const int64_t row_elems = spec.W * spec.C;
  for (int64_t y = 0; y < spec.H; ++y, out += row_elems) {
    const int64_t from = y + view.dy;
    if (from < 0 || from >= spec.H)
      std::fill_n(out, row_elems, 0.0F);
    else
      fill_row(image + from * row_elems, spec, view, value, out);
  }
}

}  // namespace

Normalizer::Normalizer(const ImageSet& set, const Normalization& normalization)
    : set_(set), normalization_(normalization) {
  const auto channels = static_cast<size_t>(set.spec.C);
  CHECK(normalization.mean.size() == channels &&
        normalization.std.size() == channels);
  if (set.pixels.index() != 0) return;
  for (int pixel = 0; pixel < 256; ++pixel)
    for (size_t c = 0; c < channels; ++c)
      table_.push_back(
          (static_cast<float>(pixel) / 255 - normalization.mean[c]) /
          normalization.std[c]);
}

void Normalizer::fill(int64_t sample, const View& view, float* out) const {
  CHECK_MSG(sample >= 0 && sample < set_.samples, "sample {} of {}", sample,
            set_.samples);
  const ImageSpec& spec = set_.spec;
  const int64_t first = sample * spec.H * spec.W * spec.C;
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&set_.pixels)) {
    const float* table = table_.data();
    const int64_t C = spec.C;
    fill_image(
        bytes->data() + first, spec, view,
        [table, C](uint8_t pixel, int64_t c) { return table[pixel * C + c]; },
        out);
  } else {
    const float* mean = normalization_.mean.data();
    const float* deviation = normalization_.std.data();
    fill_image(
        std::get<std::vector<float>>(set_.pixels).data() + first, spec, view,
        [mean, deviation](float pixel, int64_t c) {
          return (pixel - mean[c]) / deviation[c];
        },
        out);
  }
}

Augmenter::Augmenter(const DataOptions& options,
                     const ImageSet& set,
                     const Normalization& normalization,
                     uint64_t seed)
    : spec_(set.spec), normalizer_(set, normalization), seed_(seed) {
  for (const std::string& kind : options.augment) {
    if (kind == "crop")
      pad_ = options.crop_pad;
    else if (kind == "flip")
      has_flip_ = true;
    else if (kind == "rotate")
      degrees_ = options.rotate_degrees;
    else
      fail(ExitCode::kBadInput,
           "data.augment: {}, expected some of crop flip rotate", kind);
  }
  const int64_t side = std::min(spec_.H, spec_.W);
  if (pad_ < 0 || pad_ >= side)
    fail(ExitCode::kBadInput,
         "data.crop_pad: {}, expected 0 to {} for images of {} x {}", pad_,
         side - 1, spec_.H, spec_.W);
  if (!(degrees_ >= 0 && degrees_ <= 180))
    fail(ExitCode::kBadInput, "data.rotate_degrees: {}, expected 0 to 180",
         degrees_);
  upright_.resize(
      degrees_ > 0 ? static_cast<size_t>(spec_.H * spec_.W * spec_.C) : 0);
}

void Augmenter::fill(int64_t epoch, int64_t sample, float* out) {
  Rng rng(seed_, Purpose::kAugment, static_cast<uint64_t>(epoch),
          static_cast<uint64_t>(sample));
  const auto offsets = static_cast<uint64_t>(2 * pad_ + 1);
  // All are drawn whether wanted or not: the draws stay independent.
  Normalizer::View view;
  view.dy = static_cast<int64_t>(rng.below(offsets)) - pad_;
  view.dx = static_cast<int64_t>(rng.below(offsets)) - pad_;
  const bool coin = (rng.next_u32() & 1) != 0;
  const double turn = 2 * rng.uniform() - 1;
  view.is_mirrored = has_flip_ && coin;
  if (degrees_ == 0) {
    normalizer_.fill(sample, view, out);
    return;
  }
  normalizer_.fill(sample, view, upright_.data());
  rotate_image(spec_, turn * degrees_ * std::numbers::pi / 180, upright_.data(),
               out);
}

// out(p) = in(R(-radians) (p - middle) + middle), the four neighbours weighted
// by their distance.
void rotate_image(const ImageSpec& spec,
                  double radians,
                  const float* in,
                  float* out) {
  const int64_t H = spec.H, W = spec.W, C = spec.C;
  const auto cosine = static_cast<float>(std::cos(radians));
  const auto sine = static_cast<float>(std::sin(radians));
  const float middle_y = static_cast<float>(H - 1) / 2;
  const float middle_x = static_cast<float>(W - 1) / 2;
  const auto add = [&](int64_t y, int64_t x, float weight, float* to) {
    if (y < 0 || y >= H || x < 0 || x >= W) return;
    const float* from = in + (y * W + x) * C;
    for (int64_t c = 0; c < C; ++c) to[c] += weight * from[c];
  };
  std::fill_n(out, H * W * C, 0.0F);
  for (int64_t y = 0; y < H; ++y) {
    const float down = static_cast<float>(y) - middle_y;
    for (int64_t x = 0; x < W; ++x, out += C) {
      const float across = static_cast<float>(x) - middle_x;
      const float from_y = cosine * down - sine * across + middle_y;
      const float from_x = sine * down + cosine * across + middle_x;
      const float top = std::floor(from_y), left = std::floor(from_x);
      const float below = from_y - top, right = from_x - left;
      const auto y0 = static_cast<int64_t>(top);
      const auto x0 = static_cast<int64_t>(left);
      add(y0, x0, (1 - below) * (1 - right), out);
      add(y0, x0 + 1, (1 - below) * right, out);
      add(y0 + 1, x0, below * (1 - right), out);
      add(y0 + 1, x0 + 1, below * right, out);
    }
  }
}

}  // namespace syncopate
