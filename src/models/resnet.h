// Residual networks by their published depths or by their stages: He et al.
// 2016a (version 1) and 2016b (version 2), in CIFAR and ImageNet forms, with
// the variants of Tensor2Tensor and Gluon.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/registry.h"
#include "models/residual_net.h"

namespace syncopate {

// ImageNet form: depths 18, 34 (basic), 50, 101 (bottleneck), widths 64..512.
//   stem imagenet: 7x7/2 convolution and 3x3/2 maximum; stem cifar: 3x3/1.
// CIFAR form (stem cifar, depth 6n+2): n blocks per stage, widths 16, 32, 64;
//   basic blocks below depth 44, bottleneck from 44 on, as CHOCO-SGD counts
//   (a bottleneck net of "depth 6n+2" has 9n+2 layers).
// Stem cifar with depth 18, 34, 50 or 101 also selects the ImageNet form.
// Stages and widths, if given, replace the depth.
//
// Variant t2t (tensor2tensor/models/resnet.py): basic blocks pre-activation,
//   bottlenecks post-activation. The first block of every stage has a
//   projection with BatchNorm; the stem has BatchNorm and ReLU in both forms,
//   and there is no norm after the last stage. Stem cifar (is_cifar): 7x7/1
//   without pooling, and the ImageNet form without its fourth stage; the CIFAR
//   form has widths 32, 64, 128 after a stem of 16. With init t2t, a stage also
//   ends in a bottleneck whose last gamma is 0.
// Variant gluon (mxnet/gluon/model_zoo/vision/resnet.py): version 1 has the
//   bottleneck's stride in its first 1x1 convolution, and biases in both 1x1;
//   version 2 normalises the images (without scale and shift) and, like version
//   1, has BatchNorm and ReLU in the stem. Stem cifar (thumbnail): 3x3/1 alone.
//   The ImageNet form only.
ResidualNetShape resnet_shape(const ModelOptions& options);

// Body of the ImageNet form, also for the wide networks: the bottleneck's inner
// width is `widening` times 64, 128, 256, 512. Empty if no such network exists
// for the depth.
std::vector<ResidualNetShape::Stage> imagenet_stages(int64_t depth,
                                                     int64_t widening);

// Sets a 7x7/2 convolution with the stem's number of filters, and a 3x3/2
// maximum.
void use_imagenet_stem(ResidualNetShape& shape);

// Returns "20, 26": the nearest depths for which `has_network` holds.
std::string near_depths(int64_t depth, bool (*has_network)(int64_t depth));

}  // namespace syncopate
