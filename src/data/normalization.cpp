// Per-channel mean and standard deviation of the train set.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "data/loader.h"

namespace syncopate {
namespace {

// A channel that hardly varies is not blown up: at least one grey level of
// bytes, or of floats what a float still resolves.
constexpr double kStdFloorBytes = 1.0 / 255, kStdFloorFloats = 1e-6;

struct Moments {
  std::vector<double> mean, variance;  // by channel
};

// Exact: the histograms are integers.
Moments moments_of(const std::vector<uint8_t>& pixels, int64_t channels) {
  std::vector<std::array<int64_t, 256>> histogram(
      static_cast<size_t>(channels));
  for (size_t i = 0; i < pixels.size();)
    for (auto& counts : histogram) ++counts[pixels[i++]];
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
    const Moments moments = std::visit(
        [&](const auto& pixels) { return moments_of(pixels, train.spec.C); },
        train.pixels);
    const double floor =
        train.pixels.index() == 0 ? kStdFloorBytes : kStdFloorFloats;
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
