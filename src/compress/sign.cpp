// One bit per element and the mean magnitude per tensor (Karimireddy et al.
// 2019, "Error Feedback Fixes SignSGD").
#include "compress/kinds.h"
#include "compress/message.h"

namespace syncopate {
namespace {

// q = sign(x) |x|_1 / d per tensor of d elements, with sign(0) = 1.
// Message: packed_words(D, 1) words of signs, then one scale per tensor.
// |q - x|^2 = |x|^2 - |x|_1^2 / d: a contraction for every x except 0.
class Sign final : public Compressor {
 public:
  Sign(Context& context,
       const CompressOptions& options,
       const ParameterTable& table)
      : segments_(segments_of(context, table)),
        words_(words(options, table)),
        packed_(static_cast<size_t>(packed_words(table.num_elems(), 1))) {}
  static int64_t words(const CompressOptions&, const ParameterTable& table) {
    return packed_words(table.num_elems(), 1) + table.num_tensors();
  }
  int64_t message_words() const override { return words_; }
  bool is_sparse() const override { return false; }

  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw&) override {
    CHECK(std::ssize(message) == words_);
    sign_encode(context, message.first(packed_),
                as_floats(message.subspan(packed_)), x, segments_);
  }

  void blend(Context& context,
             std::span<float> y,
             std::span<const uint32_t> message,
             float a,
             float b) override {
    CHECK(std::ssize(message) == words_);
    sign_blend(context, y, message.first(packed_),
               as_floats(message.subspan(packed_)), segments_, a, b);
  }

 private:
  const Segments& segments_;
  int64_t words_;
  size_t packed_;  // words before the scales
};

}  // namespace

const CompressorKind kSign = compressor_kind<Sign>(
    "sign",
    "signs, and the mean magnitude per tensor: 1 bit per element");

}  // namespace syncopate
