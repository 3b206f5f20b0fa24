#include "data/images/normalization.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <ranges>

#include <fmt/format.h>

#include "base/text.h"
#include "data/images/image_reader.h"

namespace syncopate {
namespace {

// Keeps a nearly constant channel from being amplified: at least one grey level
// for bytes, or the resolution of a float.
constexpr double kStdFloorBytes = 1.0 / 255, kStdFloorFloats = 1e-6;

using ChannelSums = std::vector<PixelSums>;

struct Moments {
  std::vector<double> mean, variance;  // by channel
};

// E[x^2] - E[x]^2 from exact sums over `pixels` bytes per channel. The 64-bit
// mantissa of long double leaves far more precision than a float has.
Moments moments_of(const ChannelSums& sums, int64_t pixels) {
  const auto count = static_cast<long double>(pixels);
  Moments result;
  for (const PixelSums& channel : sums) {
    const long double mean = static_cast<long double>(channel.sum) / count;
    const long double variance =
        static_cast<long double>(channel.squares) / count - mean * mean;
    result.mean.push_back(static_cast<double>(mean / 255));
    result.variance.push_back(static_cast<double>(
        std::max<long double>(variance, 0) / (255.0L * 255.0L)));
  }
  return result;
}

// Two passes in index order over images of `image_elems` values.
Moments moments_of(const std::vector<float>& pixels,
                   int64_t image_elems,
                   int64_t channels,
                   std::span<const int64_t> chosen) {
  const double samples =
      static_cast<double>(std::ssize(chosen) * (image_elems / channels));
  const auto sum_of = [&](int64_t channel, auto&& term) {
    double sum = 0;
    for (const int64_t image : chosen)
      for (int64_t i = channel; i < image_elems; i += channels)
        sum += term(pixels[static_cast<size_t>(image * image_elems + i)]);
    return sum;
  };
  Moments result;
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = sum_of(c, [](double x) { return x; }) / samples;
    const double square =
        sum_of(c, [&](double x) { return (x - mean) * (x - mean); });
    result.mean.push_back(mean);
    result.variance.push_back(square / samples);
  }
  return result;
}

// The sums of some images in memory or in a mapped file.
ChannelSums sums_of(std::span<const uint8_t> pixels,
                    int64_t image_elems,
                    int64_t channels,
                    std::span<const int64_t> chosen) {
  ChannelSums sums(static_cast<size_t>(channels));
  for (const int64_t image : chosen)
    add_pixels(pixels.subspan(static_cast<size_t>(image * image_elems),
                              static_cast<size_t>(image_elems)),
               sums);
  return sums;
}

// The moments of the chosen samples, by where the pixels are.
struct MomentsOf {
  const ImageSet& set;
  std::span<const int64_t> chosen;

  Moments operator()(const std::vector<uint8_t>& pixels) const {
    const ImageSpec& spec = set.spec;
    return moments_of(sums_of(pixels, spec.elems(), spec.C, chosen),
                      std::ssize(chosen) * spec.H * spec.W);
  }
  Moments operator()(const std::vector<float>& pixels) const {
    return moments_of(pixels, set.spec.elems(), set.spec.C, chosen);
  }
  Moments operator()(const MappedImages& images) const {
    const auto C = static_cast<size_t>(set.spec.C);
    ChannelSums sums = images.total;
    if (sums.empty()) {
      sums.resize(C);
      for (const int64_t image : chosen)
        for (size_t c = 0; c < C; ++c)
          sums[c] += images.sums[static_cast<size_t>(image) * C + c];
    } else {
      std::vector<int64_t> others;
      std::ranges::set_difference(std::views::iota(int64_t{0}, set.samples),
                                  chosen, std::back_inserter(others));
      const ChannelSums rest = sums_of(
          images.bytes(), images.H * images.W * set.spec.C, set.spec.C, others);
      for (size_t c = 0; c < C; ++c)
        sums[c] += {-rest[c].sum, -rest[c].squares};
    }
    return moments_of(sums, std::ssize(chosen) * images.H * images.W);
  }
  // Decodes files evenly spread over the samples, as evaluation sees them.
  Moments operator()(const JpegFiles& files) const {
    constexpr int64_t kImages = 256;  // their mean is within 2% of grey
    const ImageSpec& spec = set.spec;
    const auto C = static_cast<size_t>(spec.C);
    const int64_t images = std::min(std::ssize(chosen), kImages);
    std::vector<ChannelSums> by_image(static_cast<size_t>(images),
                                      ChannelSums(C));
    set.pool->run(images, [&](int64_t i) {
      const int64_t sample =
          chosen[static_cast<size_t>(i * std::ssize(chosen) / images)];
      std::vector<uint8_t> pixels(static_cast<size_t>(spec.elems()));
      read_jpeg_bytes(
          files.path(sample),
          [&](int64_t H, int64_t W) {
            return evaluation_map(set, sample, H, W);
          },
          spec, pixels.data());
      add_pixels(pixels, by_image[static_cast<size_t>(i)]);
    });
    ChannelSums sums(C);
    for (const ChannelSums& image : by_image)
      for (size_t c = 0; c < C; ++c) sums[c] += image[c];
    return moments_of(sums, images * spec.H * spec.W);
  }
};

}  // namespace

Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train) {
  std::vector<int64_t> all(static_cast<size_t>(train.samples));
  std::iota(all.begin(), all.end(), int64_t{0});
  return make_normalization(options, train, all);
}

std::optional<Normalization> parse_normalization(const std::string& text) {
  const std::vector<std::string> halves = split(text, '/');
  if (halves.size() != 2) return std::nullopt;
  std::vector<float> values[2];
  for (int half = 0; half < 2; ++half)
    for (const std::string& word : split(halves[half], ' ')) {
      if (word.empty()) continue;
      const auto value = parse_double(word);
      if (!value) return std::nullopt;
      values[half].push_back(static_cast<float>(*value));
    }
  const Normalization result = {values[0], values[1]};
  const bool is_valid =
      !result.mean.empty() && result.mean.size() == result.std.size() &&
      std::ranges::all_of(result.std, [](float value) { return value > 0; });
  return is_valid ? std::optional(result) : std::nullopt;
}

std::string format_normalization(const Normalization& normalization) {
  return fmt::format("{} / {}", fmt::join(normalization.mean, " "),
                     fmt::join(normalization.std, " "));
}

Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train,
                                 std::span<const int64_t> samples) {
  const std::string& text = options.normalize;
  const auto channels = static_cast<size_t>(train.spec.C);
  if (text == "none")
    return {std::vector<float>(channels, 0), std::vector<float>(channels, 1)};
  if (text == "auto") {
    const Moments moments = std::visit(MomentsOf{train, samples}, train.pixels);
    const double floor = train.is_bytes() ? kStdFloorBytes : kStdFloorFloats;
    Normalization result;
    for (size_t c = 0; c < channels; ++c) {
      result.mean.push_back(static_cast<float>(moments.mean[c]));
      result.std.push_back(
          static_cast<float>(std::max(std::sqrt(moments.variance[c]), floor)));
    }
    return result;
  }
  const auto given = parse_normalization(text);
  if (!given)
    fail(ExitCode::kBadInput,
         "data.normalize: {}, expected auto, none or \"means / deviations\"",
         text);
  if (given->mean.size() != channels)
    fail(ExitCode::kBadInput,
         "data.normalize: {}: {} numbers, expected one for each of {} "
         "channels",
         text, given->mean.size(), channels);
  return *given;
}

}  // namespace syncopate
