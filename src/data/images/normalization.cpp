#include "data/images/normalization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/text.h"
#include "data/images/image_reader.h"

namespace syncopate {
namespace {

// Keeps a nearly constant channel from being amplified: at least one grey level
// for bytes, or the resolution of a float.
constexpr double kStdFloorBytes = 1.0 / 255, kStdFloorFloats = 1e-6;

struct Moments {
  std::vector<double> mean, variance;  // by channel
};

// Exact, because the histograms are integers.
Moments moments_of(const Histogram& histogram) {
  Moments result;
  for (const auto& counts : histogram) {
    double samples = 0, sum = 0, square = 0;
    for (int v = 0; v < 256; ++v) {
      samples += static_cast<double>(counts[v]);
      sum += static_cast<double>(counts[v]) * v;
    }
    const double mean = sum / samples;
    for (int v = 0; v < 256; ++v)
      square += static_cast<double>(counts[v]) * (v - mean) * (v - mean);
    result.mean.push_back(mean / 255);
    result.variance.push_back(square / samples / (255.0 * 255.0));
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

// E[x^2] - E[x]^2 from exact sums. The 64-bit mantissa of long double leaves
// far more precision than a float has.
Moments moments_of(const std::vector<PixelSums>& sums,
                   int64_t pixels_an_image,
                   int64_t channels,
                   std::span<const int64_t> chosen) {
  const auto count =
      static_cast<long double>(std::ssize(chosen) * pixels_an_image);
  Moments result;
  for (int64_t c = 0; c < channels; ++c) {
    PixelSums all;
    for (const int64_t image : chosen)
      all += sums[static_cast<size_t>(image * channels + c)];
    const long double mean = static_cast<long double>(all.sum) / count;
    const long double variance =
        static_cast<long double>(all.squares) / count - mean * mean;
    result.mean.push_back(static_cast<double>(mean / 255));
    result.variance.push_back(static_cast<double>(
        std::max<long double>(variance, 0) / (255.0L * 255.0L)));
  }
  return result;
}

// The pixels of some images of a set in memory or in a mapped file.
Histogram histogram_of(std::span<const uint8_t> pixels,
                       int64_t image_elems,
                       int64_t channels,
                       std::span<const int64_t> chosen) {
  Histogram histogram(static_cast<size_t>(channels));
  for (const int64_t image : chosen)
    add_pixels(pixels.subspan(static_cast<size_t>(image * image_elems),
                              static_cast<size_t>(image_elems)),
               histogram);
  return histogram;
}

// The statistics of JPEG files evenly spread over the samples, as evaluation
// sees them.
Histogram sample_histogram(const ImageSet& set,
                           std::span<const int64_t> chosen) {
  constexpr int64_t kImages = 256;  // their mean is within 2% of grey
  const auto& files = std::get<JpegFiles>(set.pixels);
  const ImageSpec& spec = set.spec;
  const int64_t images = std::min(std::ssize(chosen), kImages);
  std::vector<Histogram> histograms(static_cast<size_t>(images),
                                    Histogram(static_cast<size_t>(spec.C)));
  set.pool->run(images, [&](int64_t i) {
    const int64_t sample =
        chosen[static_cast<size_t>(i * std::ssize(chosen) / images)];
    std::vector<uint8_t> pixels(static_cast<size_t>(spec.H * spec.W * spec.C));
    read_jpeg_bytes(
        files.path(sample),
        [&](int64_t H, int64_t W) { return evaluation_map(set, sample, H, W); },
        spec, pixels.data());
    add_pixels(pixels, histograms[static_cast<size_t>(i)]);
  });
  Histogram sum(static_cast<size_t>(spec.C));
  for (const Histogram& one : histograms)
    for (size_t c = 0; c < sum.size(); ++c)
      for (size_t v = 0; v < 256; ++v) sum[c][v] += one[c][v];
  return sum;
}

// A folder without sums has the histogram of all its images, from which the
// images that are not chosen are read and subtracted.
Histogram histogram_of_chosen(const ImageSet& set,
                              const MappedImages& images,
                              std::span<const int64_t> chosen) {
  std::vector<int64_t> others;
  for (int64_t sample = 0, next = 0; sample < set.samples; ++sample) {
    const bool is_chosen = next < std::ssize(chosen) &&
                           chosen[static_cast<size_t>(next)] == sample;
    if (is_chosen)
      ++next;
    else
      others.push_back(sample);
  }
  const Histogram rest =
      histogram_of(images.file->bytes(), images.H * images.W * set.spec.C,
                   set.spec.C, others);
  Histogram result = images.histogram;
  for (size_t c = 0; c < result.size(); ++c)
    for (size_t v = 0; v < 256; ++v) result[c][v] -= rest[c][v];
  return result;
}

struct MomentsOf {
  const ImageSet& set;
  std::span<const int64_t> chosen;
  int64_t image_elems() const { return set.spec.H * set.spec.W * set.spec.C; }
  Moments operator()(const std::vector<uint8_t>& pixels) const {
    return moments_of(histogram_of(pixels, image_elems(), set.spec.C, chosen));
  }
  Moments operator()(const std::vector<float>& pixels) const {
    return moments_of(pixels, image_elems(), set.spec.C, chosen);
  }
  Moments operator()(const MappedImages& images) const {
    if (images.sums.empty())
      return moments_of(histogram_of_chosen(set, images, chosen));
    return moments_of(images.sums, images.H * images.W, set.spec.C, chosen);
  }
  Moments operator()(const JpegFiles&) const {
    return moments_of(sample_histogram(set, chosen));
  }
};

std::vector<float> parse_values(const std::string& whole,
                                const std::string& text,
                                int64_t channels) {
  std::vector<float> values;
  for (const std::string& word : split(text, ' ')) {
    if (trim(word).empty()) continue;
    const auto value = parse_double(trim(word));
    if (!value)
      fail(ExitCode::kBadInput, "data.normalize: {}: '{}' is no number", whole,
           word);
    values.push_back(static_cast<float>(*value));
  }
  if (static_cast<int64_t>(values.size()) != channels)
    fail(ExitCode::kBadInput,
         "data.normalize: {}: {} numbers, expected one for each of {} "
         "channels",
         whole, values.size(), channels);
  return values;
}

}  // namespace

Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train) {
  std::vector<int64_t> all(static_cast<size_t>(train.samples));
  std::iota(all.begin(), all.end(), int64_t{0});
  return make_normalization(options, train, all);
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
  const auto parts = split(text, '/');
  if (parts.size() != 2)
    fail(ExitCode::kBadInput,
         "data.normalize: {}, expected auto, none or \"means / deviations\"",
         text);
  Normalization result{parse_values(text, parts[0], train.spec.C),
                       parse_values(text, parts[1], train.spec.C)};
  for (const float deviation : result.std)
    if (!(deviation > 0))
      fail(ExitCode::kBadInput,
           "data.normalize: {}: deviation {}, expected more than 0", text,
           deviation);
  return result;
}

}  // namespace syncopate
