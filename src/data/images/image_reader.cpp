#include "data/images/image_reader.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "data/images/normalization.h"

namespace syncopate {
namespace {

// The input of all ways of reading. Shifts and affine maps round differently.
struct Source {
  int64_t H, W;  // stored
  const ImageSpec& out;
  const ImageMap& map;
  const float* scale;
  const float* shift;
};

bool is_whole(float value) {
  return value == std::nearbyint(value);
}

// A shift by whole pixels, possibly mirrored.
bool is_shift(const Source& source) {
  const float* m = source.map.m;
  if (m[1] != 0 || m[3] != 0 || m[4] != 1 || std::fabs(m[0]) != 1 ||
      !is_whole(m[2]) || !is_whole(m[5]))
    return false;
  if (source.map.outside != Outside::kNearest) return true;
  const auto last_x = m[0] * static_cast<float>(source.out.W - 1) + m[2];
  const auto last_y = static_cast<float>(source.out.H - 1) + m[5];
  return std::min(m[2], last_x) >= 0 && m[5] >= 0 &&
         std::max(m[2], last_x) < static_cast<float>(source.W) &&
         last_y < static_cast<float>(source.H);
}

// Writes pixels outside the image. Returns the end.
float* fill_outside(const Source& source, int64_t pixels, float* out) {
  const int64_t C = source.out.C;
  if (source.map.outside == Outside::kMean)
    return std::fill_n(out, pixels * C, 0.0F);
  for (int64_t i = 0; i < pixels; ++i) out = std::copy_n(source.shift, C, out);
  return out;
}

// value(pixel, channel) of image(y + dy, first + step x).
template <typename Pixel, typename Value>
void read_shifted(const Pixel* image,
                  const Source& source,
                  const Value& value,
                  float* out) {
  const int64_t C = source.out.C, W = source.out.W;
  const auto step = static_cast<int64_t>(source.map.m[0]);
  const auto first = static_cast<int64_t>(source.map.m[2]);
  const auto dy = static_cast<int64_t>(source.map.m[5]);
  // first + step x in [0, stored W)
  const int64_t begin =
      std::clamp<int64_t>(step > 0 ? -first : first - source.W + 1, 0, W);
  const int64_t end =
      std::clamp<int64_t>(step > 0 ? source.W - first : first + 1, begin, W);
  for (int64_t y = 0; y < source.out.H; ++y) {
    const int64_t from_y = y + dy;
    if (from_y < 0 || from_y >= source.H) {
      out = fill_outside(source, W, out);
      continue;
    }
    out = fill_outside(source, begin, out);
    const Pixel* pixel = image + (from_y * source.W + first + step * begin) * C;
    for (int64_t x = begin; x < end; ++x, pixel += step * C)
      for (int64_t c = 0; c < C; ++c) *out++ = value(pixel[c], c);
    out = fill_outside(source, W - end, out);
  }
}

// Two neighbouring pixels and the weight of the second.
struct Taps {
  int64_t first, second;
  float weight;
};
Taps clamped_taps(float at, int64_t length) {
  at = std::clamp(at, 0.0F, static_cast<float>(length - 1));
  const auto first = static_cast<int64_t>(at);
  return {first, std::min(first + 1, length - 1),
          at - static_cast<float>(first)};
}

// Without rotation and clamped: each row is a blend of two stored rows,
// computed once for all columns that are read. kC is the number of channels, or
// 0 if only source.out states it.
template <int kC, typename Pixel>
void read_upright(const Pixel* image, const Source& source, float* out) {
  const int64_t C = kC > 0 ? kC : source.out.C;
  const int64_t W = source.out.W;
  std::vector<Taps> columns(static_cast<size_t>(W));
  int64_t low = source.W - 1, high = 0;
  for (int64_t x = 0; x < W; ++x) {
    const float u = source.map.m[0] * static_cast<float>(x) + source.map.m[2];
    const Taps taps = clamped_taps(u, source.W);
    low = std::min(low, taps.first);
    high = std::max(high, taps.second);
    columns[static_cast<size_t>(x)] = taps;
  }
  for (Taps& taps : columns) {
    taps.first = (taps.first - low) * C;
    taps.second = (taps.second - low) * C;
  }
  const int64_t row_elems = (high - low + 1) * C;
  std::vector<float> blended(static_cast<size_t>(row_elems));
  float* row = blended.data();
  for (int64_t y = 0; y < source.out.H; ++y) {
    const float v = source.map.m[4] * static_cast<float>(y) + source.map.m[5];
    const Taps taps = clamped_taps(v, source.H);
    const Pixel* upper = image + (taps.first * source.W + low) * C;
    const Pixel* lower = image + (taps.second * source.W + low) * C;
    for (int64_t i = 0; i < row_elems; ++i) {
      const auto a = static_cast<float>(upper[i]);
      row[i] = a + taps.weight * (static_cast<float>(lower[i]) - a);
    }
    for (const Taps& column : columns) {
      const float* left = row + column.first;
      const float* right = row + column.second;
      for (int64_t c = 0; c < C; ++c) {
        const float blend = left[c] + column.weight * (right[c] - left[c]);
        *out++ = blend * source.scale[c] + source.shift[c];
      }
    }
  }
}

template <typename Pixel>
void read_at(const Pixel* image,
             const Source& source,
             float u,
             float v,
             float* out) {
  const int64_t C = source.out.C;
  const float left = std::floor(u), top = std::floor(v);
  const float right_weight = u - left, lower_weight = v - top;
  const auto x0 = static_cast<int64_t>(left), y0 = static_cast<int64_t>(top);
  if (x0 >= 0 && y0 >= 0 && x0 + 1 < source.W && y0 + 1 < source.H) {
    const Pixel* upper = image + (y0 * source.W + x0) * C;
    const Pixel* lower = upper + source.W * C;
    for (int64_t c = 0; c < C; ++c) {
      const auto a = static_cast<float>(upper[c]);
      const auto b = static_cast<float>(lower[c]);
      const float above =
          a + right_weight * (static_cast<float>(upper[c + C]) - a);
      const float below =
          b + right_weight * (static_cast<float>(lower[c + C]) - b);
      out[c] = (above + lower_weight * (below - above)) * source.scale[c] +
               source.shift[c];
    }
    return;
  }
  std::fill_n(out, C, 0.0F);
  for (int64_t y = y0; y <= y0 + 1; ++y) {
    for (int64_t x = x0; x <= x0 + 1; ++x) {
      const float weight = (x == x0 ? 1 - right_weight : right_weight) *
                           (y == y0 ? 1 - lower_weight : lower_weight);
      if (y < 0 || y >= source.H || x < 0 || x >= source.W) {
        if (source.map.outside == Outside::kBlack)
          for (int64_t c = 0; c < C; ++c) out[c] += weight * source.shift[c];
        continue;
      }
      const Pixel* pixel = image + (y * source.W + x) * C;
      for (int64_t c = 0; c < C; ++c)
        out[c] += weight * (static_cast<float>(pixel[c]) * source.scale[c] +
                            source.shift[c]);
    }
  }
}

template <typename Pixel>
void read_affine(const Pixel* image, const Source& source, float* out) {
  const float* m = source.map.m;
  const auto last_x = static_cast<float>(source.W - 1);
  const auto last_y = static_cast<float>(source.H - 1);
  for (int64_t y = 0; y < source.out.H; ++y) {
    const auto down = static_cast<float>(y);
    for (int64_t x = 0; x < source.out.W; ++x, out += source.out.C) {
      const auto across = static_cast<float>(x);
      float u = m[0] * across + m[1] * down + m[2];
      float v = m[3] * across + m[4] * down + m[5];
      if (source.map.outside == Outside::kNearest) {
        u = std::clamp(u, 0.0F, last_x);
        v = std::clamp(v, 0.0F, last_y);
      }
      read_at(image, source, u, v, out);
    }
  }
}

template <typename Pixel, typename Value>
void read_image(const Pixel* image,
                const Source& source,
                const Value& exact_value,
                float* out) {
  const bool is_upright = source.map.outside == Outside::kNearest &&
                          source.map.m[1] == 0 && source.map.m[3] == 0;
  if (is_shift(source))
    read_shifted(image, source, exact_value, out);
  else if (is_upright && source.out.C == 3)
    read_upright<3>(image, source, out);
  else if (is_upright)
    read_upright<0>(image, source, out);
  else
    read_affine(image, source, out);
}

// One decoder with its memory per decoding thread.
JpegDecoder& decoder_of_thread() {
  thread_local JpegDecoder decoder;
  return decoder;
}

}  // namespace

PixelScale pixel_scale(const ImageSet& set,
                       const Normalization& normalization) {
  const float unit = set.is_bytes() ? 255 : 1;
  PixelScale result;
  for (size_t c = 0; c < normalization.mean.size(); ++c) {
    result.scale.push_back(1 / (unit * normalization.std[c]));
    result.shift.push_back(-normalization.mean[c] / normalization.std[c]);
  }
  return result;
}

PixelReader::PixelReader(const ImageSpec& out,
                         const PixelScale& scale,
                         const Normalization& normalization)
    : out_(out), scale_(scale), normalization_(normalization) {
  const auto channels = static_cast<size_t>(out.C);
  CHECK(normalization.mean.size() == channels &&
        normalization.std.size() == channels &&
        scale.scale.size() == channels && scale.shift.size() == channels);
  for (int pixel = 0; pixel < 256; ++pixel)
    for (size_t c = 0; c < channels; ++c)
      table_.push_back(
          (static_cast<float>(pixel) / 255 - normalization.mean[c]) /
          normalization.std[c]);
}

template <typename Pixel>
void PixelReader::read(const Pixel* image,
                       int64_t H,
                       int64_t W,
                       const ImageMap& map,
                       float* out) const {
  read_image(
      image, {H, W, out_, map, scale_.scale.data(), scale_.shift.data()},
      [table = table_.data(), mean = normalization_.mean.data(),
       deviation = normalization_.std.data(),
       C = out_.C](Pixel pixel, int64_t c) {
        if constexpr (std::is_same_v<Pixel, uint8_t>)
          return table[pixel * C + c];
        else
          return (pixel - mean[c]) / deviation[c];
      },
      out);
}

template void PixelReader::read(const uint8_t*,
                                int64_t,
                                int64_t,
                                const ImageMap&,
                                float*) const;
template void PixelReader::read(const float*,
                                int64_t,
                                int64_t,
                                const ImageMap&,
                                float*) const;

ImageReader::ImageReader(const ImageSet& set,
                         const Normalization& normalization)
    : set_(set),
      reader_(set.spec, pixel_scale(set, normalization), normalization) {}

void ImageReader::fill(int64_t sample,
                       const ChooseMap& choose,
                       float* out) const {
  CHECK_MSG(sample >= 0 && sample < set_.samples, "sample {} of {}", sample,
            set_.samples);
  if (const auto* files = std::get_if<JpegFiles>(&set_.pixels)) {
    const JpegDecoder::Image image =
        decoder_of_thread().decode(files->path(sample), choose);
    reader_.read(image.pixels, image.H, image.W, image.map, out);
    return;
  }
  const ImageSet::Resident stored = set_.resident();
  const ImageMap map = choose(stored.H, stored.W);
  const int64_t first = sample * stored.H * stored.W * set_.spec.C;
  if (set_.is_bytes())
    reader_.read(stored.bytes.data() + first, stored.H, stored.W, map, out);
  else
    reader_.read(stored.floats.data() + first, stored.H, stored.W, map, out);
}

void ImageReader::for_each(int64_t count,
                           const std::function<void(int64_t)>& body) const {
  if (set_.pool) {
    set_.pool->run(count, body);
    return;
  }
  for (int64_t i = 0; i < count; ++i) body(i);
}

void ImageReader::will_need(std::span<const int64_t> samples) const {
  const auto* mapped = std::get_if<MappedImages>(&set_.pixels);
  if (mapped == nullptr) return;
  const int64_t image_bytes = mapped->H * mapped->W * set_.spec.C;
  for (const int64_t sample : samples)
    mapped->blocks.file->will_need(sample * image_bytes, image_bytes);
}

void read_jpeg_bytes(const fs::path& path,
                     const ChooseMap& choose,
                     const ImageSpec& out,
                     uint8_t* pixels) {
  const JpegDecoder::Image image = decoder_of_thread().decode(path, choose);
  const std::vector<float> mean(3, 0.0F), deviation(3, 1.0F / 255);
  const PixelReader reader(out, {std::vector<float>(3, 1.0F), mean},
                           {mean, deviation});
  std::vector<float> values(static_cast<size_t>(out.elems()));
  reader.read(image.pixels, image.H, image.W, image.map, values.data());
  for (size_t i = 0; i < values.size(); ++i)
    pixels[i] = static_cast<uint8_t>(values[i] + 0.5F);
}

ImageMap evaluation_map(const ImageSet& set,
                        int64_t sample,
                        int64_t H,
                        int64_t W) {
  return evaluation_view(H, W, set.eval_resize, set.spec.H, set.spec.W)
      .to_map(sample, Outside::kNearest);
}

}  // namespace syncopate
