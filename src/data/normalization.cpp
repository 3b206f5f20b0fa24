// Per-channel mean and standard deviation of the train set.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "data/image_reader.h"

namespace syncopate {
namespace {

// A channel that hardly varies is not blown up: at least one grey level of
// bytes, or of floats what a float still resolves.
constexpr double kStdFloorBytes = 1.0 / 255, kStdFloorFloats = 1e-6;

struct Moments {
  std::vector<double> mean, variance;  // by channel
};

// Exact: the histograms are integers.
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

// Two passes in index order.
Moments moments_of(const std::vector<float>& pixels, int64_t channels) {
  const auto num_channels = static_cast<size_t>(channels);
  const double samples = static_cast<double>(pixels.size() / num_channels);
  Moments result;
  for (size_t c = 0; c < num_channels; ++c) {
    double sum = 0, square = 0;
    for (size_t i = c; i < pixels.size(); i += num_channels) sum += pixels[i];
    const double mean = sum / samples;
    for (size_t i = c; i < pixels.size(); i += num_channels)
      square += (pixels[i] - mean) * (pixels[i] - mean);
    result.mean.push_back(mean);
    result.variance.push_back(square / samples);
  }
  return result;
}

// Of the bytes of JPEG files evenly spread over the set: what evaluation sees.
Histogram sample_histogram(const ImageSet& set) {
  constexpr int64_t kImages = 256;  // their mean is within 2% of grey
  const auto& files = std::get<JpegFiles>(set.pixels);
  const ImageSpec& spec = set.spec;
  const int64_t images = std::min(set.samples, kImages);
  std::vector<Histogram> histograms(static_cast<size_t>(images),
                                    Histogram(static_cast<size_t>(spec.C)));
  set.pool->run(images, [&](int64_t i) {
    const int64_t sample = i * set.samples / images;
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

struct MomentsOf {
  const ImageSet& set;
  Moments operator()(const std::vector<uint8_t>& pixels) const {
    Histogram histogram(static_cast<size_t>(set.spec.C));
    add_pixels(pixels, histogram);
    return moments_of(histogram);
  }
  Moments operator()(const std::vector<float>& pixels) const {
    return moments_of(pixels, set.spec.C);
  }
  Moments operator()(const MappedImages& images) const {
    return moments_of(images.histogram);
  }
  Moments operator()(const JpegFiles&) const {
    return moments_of(sample_histogram(set));
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
  const std::string& text = options.normalize;
  const auto channels = static_cast<size_t>(train.spec.C);
  if (text == "none")
    return {std::vector<float>(channels, 0), std::vector<float>(channels, 1)};
  if (text == "auto") {
    const Moments moments = std::visit(MomentsOf{train}, train.pixels);
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
