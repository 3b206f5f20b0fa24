// A random subset of each tensor's elements, redrawn for each message.
#include "compress/kinds.h"
#include "compress/sparse.h"

namespace syncopate {
namespace {

// Per tensor of d elements. Biased: q equals x where chosen, E|q - x|^2 = (1 -
// k / d) |x|^2. Unbiased: scaled by d / k, E|q - x|^2 = (d / k - 1) |x|^2.
class RandomK final : public Sparse {
 public:
  RandomK(Context& context,
          const CompressOptions& options,
          const ParameterTable& table)
      : Sparse(context, options, table),
        scaling_(options.biased ? Scaling::kNone : Scaling::kScaled) {}
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override {
    random_k_encode(context, values(message), places(message), x, segments_,
                    selection_, draw, scaling_);
  }

 private:
  Scaling scaling_;
};

}  // namespace

const CompressorKind kRandomK =
    compressor_kind<RandomK>("random_k",
                             "values at random places: 64 bits per value kept");

}  // namespace syncopate
