// Wide residual networks: DS-Sync's, Zagoruyko & Komodakis 2016, and the
// ImageNet bottleneck form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/registry.h"
#include "models/residual_net.h"

namespace syncopate {

// Stem cifar, 16 filters, then widths 16k, 32k, 64k of basic blocks:
//   form post (DS-Sync): (d-2)/6 blocks per stage, projections with BatchNorm;
//   form pre (Zagoruyko): (d-4)/6 blocks per stage, projections without,
//     dropout before each block's last convolution.
// Stem imagenet, depth 50 or 101, form post: ResNet's body with k times the
//   inner width (WRN-50-2).
ResidualNetShape wrn_shape(const ModelOptions& options);

}  // namespace syncopate
