// Residual networks by their published depths, or by their stages: He et al.
// 2016a (version 1) and 2016b (version 2), CIFAR and ImageNet forms, and what
// Tensor2Tensor and Gluon make of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/registry.h"
#include "models/residual_net.h"

namespace syncopate {

// ImageNet form: depths 18, 34 (basic), 50, 101 (bottleneck), widths 64..512.
//   stem imagenet: 7x7/2 convolution and 3x3/2 maximum; stem cifar: 3x3/1.
// CIFAR form (stem cifar, depth 6n+2): n blocks a stage, widths 16, 32, 64;
//   basic blocks below depth 44, bottleneck from 44 on, as CHOCO-SGD counts
//   (a bottleneck net of "depth 6n+2" has 9n+2 layers).
// Stem cifar with depth 18, 34, 50 or 101 is the ImageNet form too.
// Stages and widths, where they are given, stand instead of the depth.
//
// Variant t2t (tensor2tensor/models/resnet.py): basic blocks pre-activation,
//   bottlenecks post-activation. The first block of every stage has a
//   projection with BatchNorm; the stem has BatchNorm and ReLU in both forms,
//   nothing is normalised behind the last stage. Stem cifar (is_cifar): 7x7/1
//   without pooling, and the ImageNet form without its fourth stage; the CIFAR
//   form has widths 32, 64, 128 behind a stem of 16. Init t2t also lets a stage
//   end in a bottleneck whose last gamma is 0.
// Variant gluon (mxnet/gluon/model_zoo/vision/resnet.py): version 1 has the
//   bottleneck's stride in its first 1x1 convolution, and biases in both 1x1;
//   version 2 normalises the images (without scale and shift) and, as version
//   1, has BatchNorm and ReLU in the stem. Stem cifar (thumbnail): 3x3/1 alone.
//   The ImageNet form only.
ResidualNetShape resnet_shape(const ModelOptions& options);

// The body of the ImageNet form, for the wide networks too: the bottleneck's
// inner width is `widening` times 64, 128, 256, 512. Empty where the depth has
// no such network.
std::vector<ResidualNetShape::Stage> imagenet_stages(int64_t depth,
                                                     int64_t widening);

// 7x7/2 convolution, of as many filters as the stem has, and 3x3/2 maximum.
void use_imagenet_stem(ResidualNetShape& shape);

// model.stem is neither cifar nor imagenet, or so.
[[noreturn]] void refuse_choice(const std::string& key,
                                const std::string& value,
                                const std::string& choices);

// "20, 26": the depths around `depth` for which `has_network` holds.
std::string near_depths(int64_t depth, bool (*has_network)(int64_t depth));

}  // namespace syncopate
