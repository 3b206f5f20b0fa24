// Keeps the elements of each tensor with the largest magnitudes.
#include "compress/kinds.h"
#include "compress/sparse.h"

namespace syncopate {
namespace {

// |q - x|^2 <= (1 - k / d) |x|^2 per tensor of d elements.
class TopK final : public Sparse {
 public:
  using Sparse::Sparse;
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw&) override {
    top_k_encode(context, values(message), places(message), x, segments_,
                 selection_);
  }
};

}  // namespace

const CompressorKind kTopK =
    compressor_kind<TopK>("top_k",
                          "a tensor's largest values: 64 bits per value kept");

}  // namespace syncopate
