// Procedural classes. The pattern of a class is, per channel, a sum of a few
// plane waves that are periodic in the image. A sample is the pattern of its
// class, shifted cyclically by up to an eighth of each side, plus noise. The
// waves are long enough for the mean over all shifts to keep most of the
// pattern, so that a linear model learns something and a convolutional one
// nearly everything.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/rng.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

constexpr int kWaves = 4;
constexpr int64_t kFrequencies = 3;    // -1, 0 or 1 periods a side, times
constexpr int64_t kLongestFactor = 2;  // 1 or 2
constexpr int64_t kShiftFraction = 8;  // of a side
constexpr double kMiddle = 127.5;      // of a byte's range
constexpr double kPatternScale = 40;   // bytes per standard deviation
constexpr uint64_t kPatterns = 0, kTrain = 1, kTest = 2;  // streams of Rng
constexpr int64_t kValuesPerThread = 1 << 20;  // for which starting one pays

// Unit variance, zero mean: (H, W, C).
std::vector<float> make_pattern(const ImageSpec& spec,
                                uint64_t seed,
                                int64_t label) {
  Rng rng(seed, Purpose::kSynthetic, static_cast<uint64_t>(label), kPatterns);
  std::vector<double> pattern(static_cast<size_t>(spec.elems()));
  for (int64_t c = 0; c < spec.C; ++c) {
    for (int wave = 0; wave < kWaves; ++wave) {
      const auto factor = static_cast<double>(1 + rng.below(kLongestFactor));
      const double down =
          factor * (static_cast<double>(rng.below(kFrequencies)) - 1);
      const double across =
          factor * (static_cast<double>(rng.below(kFrequencies)) - 1);
      const double phase = rng.uniform(), height = 0.5 + rng.uniform();
      for (int64_t y = 0; y < spec.H; ++y)
        for (int64_t x = 0; x < spec.W; ++x)
          pattern[static_cast<size_t>((y * spec.W + x) * spec.C + c)] +=
              height * std::sin(2 * std::numbers::pi *
                                (down * static_cast<double>(y) /
                                     static_cast<double>(spec.H) +
                                 across * static_cast<double>(x) /
                                     static_cast<double>(spec.W) +
                                 phase));
    }
  }
  double mean = 0, square = 0;
  for (const double v : pattern) mean += v;
  mean /= static_cast<double>(pattern.size());
  for (const double v : pattern) square += (v - mean) * (v - mean);
  const double deviation =
      std::max(std::sqrt(square / static_cast<double>(pattern.size())), 1e-6);
  std::vector<float> result(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i)
    result[i] = static_cast<float>((pattern[i] - mean) / deviation);
  return result;
}

// Nearly normal with mean 0 and variance 1: the sum of the four bytes of a draw
// (Irwin-Hall), whose mean is 510 and variance 4 (256^2 - 1) / 12 = 21845.
float byte_noise(uint32_t draw) {
  const uint32_t pairs = (draw & 0x00ff00ffu) + ((draw >> 8) & 0x00ff00ffu);
  const auto sum = static_cast<int32_t>((pairs & 0xffffu) + (pairs >> 16));
  constexpr float kScale = 1 / 147.80054F;  // sqrt(21845)
  return static_cast<float>(sum - 510) * kScale;
}

void draw_sample(const ImageSpec& spec,
                 const std::vector<float>& pattern,
                 float noise,
                 Rng rng,
                 uint8_t* pixels) {
  const int64_t reach_y = spec.H / kShiftFraction;
  const int64_t reach_x = spec.W / kShiftFraction;
  const int64_t shift_y =
      static_cast<int64_t>(rng.below(2 * reach_y + 1)) + spec.H - reach_y;
  const int64_t shift_x =
      static_cast<int64_t>(rng.below(2 * reach_x + 1)) + spec.W - reach_x;
  for (int64_t y = 0; y < spec.H; ++y) {
    const int64_t from_y = (y + shift_y) % spec.H;
    for (int64_t x = 0; x < spec.W; ++x) {
      const int64_t from_x = (x + shift_x) % spec.W;
      const float* from = pattern.data() + (from_y * spec.W + from_x) * spec.C;
      for (int64_t c = 0; c < spec.C; ++c) {
        const double value =
            kMiddle +
            kPatternScale * (from[c] + noise * byte_noise(rng.next_u32()));
        *pixels++ =
            static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
}

ImageSet make_set(ThreadPool& pool,
                  const DataOptions& options,
                  const ImageSpec& spec,
                  const std::vector<std::vector<float>>& patterns,
                  int64_t samples,
                  uint64_t stream) {
  ImageSet set;
  set.spec = spec;
  set.samples = samples;
  std::vector<uint8_t> pixels(static_cast<size_t>(samples * spec.elems()));
  set.labels.resize(static_cast<size_t>(samples));
  pool.run(samples, [&](int64_t i) {
    const int64_t label = i % options.classes;
    set.labels[static_cast<size_t>(i)] = static_cast<int32_t>(label);
    draw_sample(set.spec, patterns[static_cast<size_t>(label)],
                static_cast<float>(options.noise),
                Rng(options.synthetic_seed, Purpose::kSynthetic,
                    static_cast<uint64_t>(i), stream),
                pixels.data() + i * spec.elems());
  });
  set.pixels = std::move(pixels);
  return set;
}

}  // namespace

Dataset make_synthetic_images(const DataOptions& given) {
  DataOptions options = given;
  options.height = image_size(given).H;
  options.width = image_size(given).W;
  const std::array<std::pair<const char*, int64_t>, 6> sizes = {
      {{"samples", options.samples},
       {"test_samples", options.test_samples},
       {"classes", options.classes},
       {"channels", options.channels},
       {"height", options.height},
       {"width", options.width}}};
  for (const auto& [key, value] : sizes)
    if (value < 1)
      fail(ExitCode::kBadInput, "data.{}: {}, expected at least 1", key, value);
  if (!(options.noise >= 0 && options.noise <= 1000))
    fail(ExitCode::kBadInput, "data.noise: {}, expected 0 to 1000",
         options.noise);
  for (const int64_t images :
       {options.samples, options.test_samples, options.classes}) {
    const std::array<int64_t, 4> factors = {images, options.height,
                                            options.width, options.channels};
    check_memory("synthetic_images", factors, sizeof(float));
  }
  std::vector<std::vector<float>> patterns(
      static_cast<size_t>(options.classes));
  const ImageSpec spec = {.C = options.channels,
                          .H = options.height,
                          .W = options.width,
                          .classes = options.classes};
  const int64_t wanted =
      options.decode_threads > 0 ? options.decode_threads : usable_cores();
  const int64_t images =
      options.classes + options.samples + options.test_samples;
  ThreadPool pool(static_cast<int>(std::clamp(
      images * spec.elems() / kValuesPerThread, int64_t{1}, wanted)));
  pool.run(options.classes, [&](int64_t label) {
    patterns[static_cast<size_t>(label)] =
        make_pattern(spec, options.synthetic_seed, label);
  });
  Dataset data;
  data.train = make_set(pool, options, spec, patterns, options.samples, kTrain);
  data.test =
      make_set(pool, options, spec, patterns, options.test_samples, kTest);
  data.source = fmt::format(
      "synthetic_images {} + {} of {}x{}x{}, {} classes, noise {}, seed {}",
      options.samples, options.test_samples, options.height, options.width,
      options.channels, options.classes, options.noise, options.synthetic_seed);
  return data;
}

}  // namespace syncopate
