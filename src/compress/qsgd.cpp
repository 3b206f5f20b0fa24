// Stochastic rounding to levels of the tensor's norm (QSGD, Alistarh et al.
// 2017).
#include "compress/kinds.h"
#include "compress/message.h"

namespace syncopate {
namespace {

constexpr int64_t kMaxBits = 16;

int64_t levels_of(const CompressOptions& options) {
  constexpr int64_t kMaxLevels = (int64_t{1} << kMaxBits) - 1;
  if (options.levels < 0 || options.levels > kMaxLevels)
    fail(ExitCode::kBadInput,
         "compress.levels = {}: expected 1 to {}, or 0 to count by "
         "compress.bits",
         options.levels, kMaxLevels);
  if (options.levels > 0) return options.levels;
  if (options.bits < 1 || options.bits > kMaxBits)
    fail(ExitCode::kBadInput, "compress.bits = {}: expected 1 to {}",
         options.bits, kMaxBits);
  return (int64_t{1} << options.bits) - 1;
}

int64_t packed_words_of(int64_t levels, const ParameterTable& table) {
  return packed_words(table.num_elems(), 1 + bits_of_level(levels));
}

// Message: 1 + bits_of_level(levels) bits per element, then one norm per
// tensor.
//
// For d elements and s levels, with omega = min(d / s^2, sqrt(d) / s):
// E|q - x|^2 <= omega |x|^2, and if biased, that is, scaled by 1 / (1 + omega),
// <= omega / (1 + omega) |x|^2.
class Qsgd final : public Compressor {
 public:
  Qsgd(Context& context,
       const CompressOptions& options,
       const ParameterTable& table)
      : segments_(segments_of(context, table)),
        params_{.levels = levels_of(options), .is_biased = options.biased},
        words_(words(options, table)),
        packed_(static_cast<size_t>(packed_words_of(params_.levels, table))) {}
  static int64_t words(const CompressOptions& options,
                       const ParameterTable& table) {
    return packed_words_of(levels_of(options), table) + table.num_tensors();
  }
  int64_t message_words() const override { return words_; }
  bool is_sparse() const override { return false; }

  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override {
    CHECK(std::ssize(message) == words_);
    qsgd_encode(context, message.first(packed_),
                as_floats(message.subspan(packed_)), x, segments_, params_,
                draw);
  }

  void blend(Context& context,
             std::span<float> y,
             std::span<const uint32_t> message,
             float a,
             float b) override {
    CHECK(std::ssize(message) == words_);
    qsgd_blend(context, y, message.first(packed_),
               as_floats(message.subspan(packed_)), segments_, params_, a, b);
  }

 private:
  const Segments& segments_;
  QsgdParams params_;
  int64_t words_;
  size_t packed_;  // words before the norms
};

}  // namespace

const CompressorKind kQsgd = compressor_kind<Qsgd>(
    "qsgd",
    "levels of a tensor's norm, rounded at random: 1 + compress.bits bits per "
    "element");

}  // namespace syncopate
