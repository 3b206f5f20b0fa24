// Hides the difference between oneDNN 2.x, which needs an operation descriptor,
// and 3.x, which creates primitive descriptors directly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <string>

#include "tensor/tensor.h"

namespace syncopate::cpu {

dnnl::memory::data_type type_of(DType dtype);  // of kF32, kBf16

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };

struct ConvDescription {
  dnnl::algorithm algorithm;
  dnnl::memory::desc x, w, y;  // image, filters, result; or their gradients
  dnnl::memory::dims strides, padding_before, padding_after;
};

// The library's choice, common to the three passes.
struct ConvChoice {
  dnnl::primitive primitive;  // empty: no implementation for this description
  dnnl::memory::desc x, w, y, scratchpad;
  std::string name;  // the library's, of the implementation
  explicit operator bool() const { return static_cast<bool>(primitive); }
};

// The caller provides the scratchpad. The backward passes need only the
// description of the forward pass, none of its results.
ConvChoice choose_conv(const dnnl::engine& engine,
                       ConvPass pass,
                       const ConvDescription& conv);

// c (M, N) = a (M, D) b (D, N) [+ bias (1, N)] [+ c]. Dimensions may be
// DNNL_RUNTIME_DIM_VAL.
struct MatmulDescription {
  dnnl::memory::desc a, b, c;
  dnnl::memory::desc bias;  // without elements: none
  bool accumulates;
};

struct MatmulChoice {
  dnnl::primitive primitive;  // empty: no implementation for this description
  dnnl::memory::desc b, scratchpad;  // b: if its format was left open
  std::string name;
  explicit operator bool() const { return static_cast<bool>(primitive); }
};

MatmulChoice choose_matmul(const dnnl::engine& engine,
                           const MatmulDescription& product);

}  // namespace syncopate::cpu
