// Clicks drawn from a known model. The popularity of rows falls in steps that
// approximate Zipf's law. Octave e of a field consists of its
// rows 2^e - 1 ... 2^(e+1) - 2, which are equally likely; octave e + 1 has
// about 0.6 times the probability of octave e. Rows that do not fill an octave
// belong to the last one. The log odds of a click are
//
//   bias + scale (sum_f w_f[row_f] + sum_pairs <u_f[row_f], u_g[row_g]>)
//
// with normal w and u of variance 2^-e. Rare rows thus carry little weight,
// because few records show their values. Only the first kWeighedRows rows of a
// field have w and u.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"
#include "data/byte_reader.h"
#include "data/clicks/auc.h"
#include "data/clicks/click_readers.h"
#include "data/clicks/criteo_format.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

constexpr int64_t kIntegerRows = 40;    // most rows of an integer's field
constexpr int64_t kWeighedRows = 1023;  // ten octaves
constexpr int64_t kPairs = 4, kLatent = 2;
// Standard deviation of a pair's product relative to that of a weight.
constexpr float kPairScale = 0.35F;
constexpr double kBestAuc = 0.80, kClickRate = 0.25;
constexpr int64_t kFieldRowsLimit = 1 << 24;
constexpr int64_t kChunkSamples = 16384;
// Streams of Rng(seed, kSynthetic): by sample; by field.
constexpr uint64_t kTrain = 1, kTest = 2, kCalibration = 3;
constexpr uint64_t kWeights = 4, kLatents = 5, kPairing = 6;

int octave_of(int64_t row) {
  return std::bit_width(static_cast<uint64_t>(row) + 1) - 1;
}

// Maps 32-bit draws to rows in integer arithmetic, which is portable. The upper
// 8 bits choose the octave, the others the row in it.
class RowDraw {
 public:
  explicit RowDraw(int64_t rows) {
    constexpr double kRatio = 0.6;  // of successive octaves' shares
    const int octaves = octave_of(rows);
    double total = 0;
    for (int e = 0; e < octaves; ++e) total += std::pow(kRatio, e);
    size_t left = octave_.size();
    for (int e = octaves - 1; e >= 0; --e) {
      const int64_t first = (int64_t{1} << e) - 1;
      const int64_t end = e == octaves - 1 ? rows : 2 * first + 1;
      octaves_.push_back(
          {static_cast<uint32_t>(first), static_cast<uint32_t>(end - first)});
      const double share =
          std::pow(kRatio, e) / total * static_cast<double>(octave_.size());
      // Octave 0 takes what rounding leaves over.
      size_t slots =
          e == 0 ? left : std::max<size_t>(1, static_cast<size_t>(share));
      for (; slots > 0; --slots)
        octave_[--left] = static_cast<uint8_t>(octaves_.size() - 1);
    }
  }
  int32_t row(uint32_t draw) const {
    const Octave& octave = octaves_[octave_[draw >> kPartBits]];
    const uint64_t part = draw & ((1U << kPartBits) - 1);
    return static_cast<int32_t>(octave.first +
                                (part * octave.rows >> kPartBits));
  }

 private:
  static constexpr int kPartBits = 24;
  struct Octave {
    uint32_t first, rows;
  };
  std::array<uint8_t, 256> octave_;  // of the upper bits: place in octaves_
  std::vector<Octave> octaves_;
};

// u in (0, 1) decides whether the sample is a click.
struct Draw {
  std::array<int32_t, kClickFields> rows;
  double u;
};

class ClickModel {
 public:
  ClickModel(uint64_t seed, const ClickSpec& spec) : seed_(seed) {
    for (int64_t field = 0; field < kClickFields; ++field) {
      const int64_t rows = spec.rows[static_cast<size_t>(field)];
      draws_.emplace_back(rows);
      weights_.push_back(
          make_values(field, std::min(rows, kWeighedRows), kWeights, 1, 1));
    }
    const auto order =
        permutation(kClickFields, Rng(seed, Purpose::kSynthetic, 0, kPairing));
    for (size_t i = 0; i < fields_.size(); ++i) {
      fields_[i] = static_cast<size_t>(order[i]);
      latents_[i] = make_values(
          order[i], std::min(spec.rows[fields_[i]], kWeighedRows), kLatents,
          kLatent, std::sqrt(kPairScale / std::sqrt(float{kLatent})));
    }
    calibrate();
  }

  Draw draw(uint64_t stream, int64_t sample) const {
    Rng rng(seed_, Purpose::kSynthetic, static_cast<uint64_t>(sample), stream);
    Draw result{};
    for (size_t field = 0; field < draws_.size(); ++field)
      result.rows[field] = draws_[field].row(rng.next_u32());
    result.u = (rng.next_u32() + 0.5) * 0x1.0p-32;
    return result;
  }
  double probability(const Draw& draw) const {
    return sigmoid(bias_ + scale_ * score(draw));
  }
  int64_t memory_bytes() const {
    int64_t values = 0;
    for (const auto& of_field : weights_) values += std::ssize(of_field);
    for (const auto& of_field : latents_) values += std::ssize(of_field);
    return values * static_cast<int64_t>(sizeof(float));
  }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  std::vector<float> make_values(int64_t field,
                                 int64_t rows,
                                 uint64_t stream,
                                 int64_t width,
                                 float scale) const {
    Rng rng(seed_, Purpose::kSynthetic, static_cast<uint64_t>(field), stream);
    std::vector<float> values;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < width; ++i)
        values.push_back(scale * static_cast<float>(rng.normal()) *
                         std::exp2(-0.5F * static_cast<float>(octave_of(row))));
    return values;
  }

  double score(const Draw& draw) const {
    double sum = 0;
    for (size_t field = 0; field < weights_.size(); ++field) {
      const auto row = static_cast<size_t>(draw.rows[field]);
      if (row < weights_[field].size()) sum += weights_[field][row];
    }
    for (size_t i = 0; i < fields_.size(); i += 2) {
      const auto a = static_cast<size_t>(draw.rows[fields_[i]]) * kLatent;
      const auto b = static_cast<size_t>(draw.rows[fields_[i + 1]]) * kLatent;
      if (a >= latents_[i].size() || b >= latents_[i + 1].size()) continue;
      for (size_t d = 0; d < kLatent; ++d)
        sum += latents_[i][a + d] * latents_[i + 1][b + d];
    }
    return sum;
  }

  void calibrate();

  uint64_t seed_;
  double scale_ = 1, bias_ = 0;
  std::vector<RowDraw> draws_;
  std::vector<std::vector<float>> weights_;             // (rows) by field
  std::array<size_t, 2 * kPairs> fields_{};             // pairs: 0 1, 2 3, ...
  std::array<std::vector<float>, 2 * kPairs> latents_;  // (rows, kLatent)
};

// Bisections on the scores of separate samples. The bias is set by the rate of
// clicks, the scale by the AUC of the probabilities if labels follow them,
// sum_{p_j < p_i} p_i (1 - p_j) / (sum_i p_i sum_j (1 - p_j)).
void ClickModel::calibrate() {
  constexpr int64_t kSamples = 8192;
  constexpr int kHalvings = 24;
  constexpr double kScaleLimit = 64, kBiasLimit = 1024;
  std::vector<double> scores;
  for (int64_t i = 0; i < kSamples; ++i)
    scores.push_back(score(draw(kCalibration, i)));
  std::sort(scores.begin(), scores.end());
  double low_scale = 0, high_scale = kScaleLimit;
  for (int i = 0; i < kHalvings; ++i) {
    scale_ = (low_scale + high_scale) / 2;
    double low = -kBiasLimit, high = kBiasLimit;
    for (int j = 0; j < kHalvings; ++j) {
      bias_ = (low + high) / 2;
      double clicks = 0;
      for (const double x : scores) clicks += sigmoid(bias_ + scale_ * x);
      (clicks > kClickRate * kSamples ? high : low) = bias_;
    }
    double clicks = 0, others = 0, wins = 0;
    for (const double x : scores) {
      const double p = sigmoid(bias_ + scale_ * x);
      wins += p * (others + (1 - p) / 2);
      clicks += p;
      others += 1 - p;
    }
    (wins > kBestAuc * clicks * others ? high_scale : low_scale) = scale_;
  }
}

// Draws rows on demand; stores the labels.
class SyntheticClicks : public ClickSet {
 public:
  SyntheticClicks(std::shared_ptr<const ClickModel> model,
                  uint64_t stream,
                  int64_t samples)
      : model_(std::move(model)),
        stream_(stream),
        clicked_(static_cast<size_t>(samples)) {}

  // Also stores the probabilities of clicks unless `probabilities` is empty.
  void draw_labels(ThreadPool& pool, std::span<float> probabilities) {
    const int64_t chunks = (samples() - 1) / kChunkSamples + 1;
    pool.run(chunks, [&](int64_t chunk) {
      const int64_t first = chunk * kChunkSamples;
      const int64_t end = std::min(first + kChunkSamples, samples());
      for (int64_t i = first; i < end; ++i) {
        const auto place = static_cast<size_t>(i);
        const Draw draw = model_->draw(stream_, i);
        const double p = model_->probability(draw);
        clicked_[place] = draw.u < p ? 1 : 0;
        if (!probabilities.empty())
          probabilities[place] = static_cast<float>(p);
      }
    });
  }

  int64_t samples() const override { return std::ssize(clicked_); }
  std::span<const uint8_t> clicked() const override { return clicked_; }
  void read(int64_t sample, std::span<int32_t> rows) const override {
    const Draw draw = model_->draw(stream_, sample);
    std::copy(draw.rows.begin(), draw.rows.end(), rows.begin());
  }
  int64_t memory_bytes() const override {
    return samples() + model_->memory_bytes();
  }

 private:
  std::shared_ptr<const ClickModel> model_;
  uint64_t stream_;
  std::vector<uint8_t> clicked_;
};

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

ClickData make_synthetic_criteo(const DataOptions& options) {
  for (const auto& [key, value] :
       {std::pair("samples", options.samples),
        std::pair("test_samples", options.test_samples)}) {
    if (value < 1)
      fail(ExitCode::kBadInput, "data.{}: {}, expected at least 1", key, value);
    const std::array<int64_t, 1> factors = {value};
    // Label, probability and sort key of a test sample.
    check_memory("synthetic_criteo", factors, 16);
  }
  if (options.field_rows < 2 || options.field_rows > kFieldRowsLimit)
    fail(ExitCode::kBadInput, "data.field_rows: {}, expected 2 to {}",
         options.field_rows, kFieldRowsLimit);
  ClickData data;
  for (int64_t field = 0; field < kClickFields; ++field)
    data.spec.rows.push_back(field < kClickIntegers
                                 ? std::min(options.field_rows, kIntegerRows)
                                 : options.field_rows);
  const auto model =
      std::make_shared<const ClickModel>(options.synthetic_seed, data.spec);
  auto train =
      std::make_unique<SyntheticClicks>(model, kTrain, options.samples);
  auto test =
      std::make_unique<SyntheticClicks>(model, kTest, options.test_samples);
  ThreadPool pool(usable_cores());
  train->draw_labels(pool, {});
  std::vector<float> probabilities(static_cast<size_t>(options.test_samples));
  test->draw_labels(pool, probabilities);
  data.best_auc = area_under_curve(probabilities, test->clicked());
  data.source =
      fmt::format("synthetic_criteo {} + {} of {} fields, {} rows, seed {}",
                  options.samples, options.test_samples, kClickFields,
                  options.field_rows, options.synthetic_seed);
  data.digest = digest_of(data.source + digest_of(as_text(train->clicked())) +
                          digest_of(as_text(test->clicked())));
  data.train = std::move(train);
  data.test = std::move(test);
  return data;
}

}  // namespace syncopate
