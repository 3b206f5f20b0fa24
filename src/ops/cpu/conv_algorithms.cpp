#include "ops/cpu/conv_algorithms.h"

#include <algorithm>

#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

// Measured with oneDNN 2.6.3 on two Zen 4 cores: time ratio direct / Winograd
// of forward, backward data and backward weights (3x3, stride 1, blocked):
//   16->16@32  0.7 0.6 0.8    16->32@32  0.7 0.9 0.9    16->64@32  0.8 0.9 1.2
//   32->32@16  1.8 1.8 1.1    32->32@32  1.6 2.1 0.9    48->48@16  1.8 1.6 1.5
//   64->64@8   2.1 2.6 1.6    64->64@32  2.0 2.0 1.3   128->128@16 1.8 1.7 1.7
// Below 32 channels the image transforms cost more than the products they save;
// with few tiles the filter transform does (256->256@8: 0.6 with 16 tiles,
// 512->512@4: 0.4 with 4).
ConvAlgorithm conv_algorithm(const ConvSize& size, DType dtype, Layout layout) {
  constexpr int64_t kLeastChannels = 32, kLeastTiles = 128, kTile = 4;
  const bool is_eligible = size.R == 3 && size.S == 3 && size.stride == 1 &&
                           dtype == DType::kF32 && layout == Layout::kNchw16c;
  const int64_t tiles =
      size.N * ceil_div(size.P(), kTile) * ceil_div(size.Q(), kTile);
  return is_eligible && std::min(size.C, size.K) >= kLeastChannels &&
                 tiles >= kLeastTiles
             ? ConvAlgorithm::kWinograd
             : ConvAlgorithm::kDirect;
}

}  // namespace syncopate::cpu
