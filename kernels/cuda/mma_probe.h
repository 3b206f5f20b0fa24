// A single product of fragments, by which tests check the fragments' layout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "tensor/tensor.h"

namespace syncopate::cuda {

// product (16, 8) = a (16, 16) * b, where b is given as (16, 8) and loaded
// transposed, or as its transpose (8, 16) and loaded as it is. Arrays are in
// the context's memory, their rows one after another, and start at multiples
// of 16 bytes.
void multiply_fragments(Context& context,
                        float* product,
                        const Bf16* a,
                        const Bf16* b,
                        bool is_b_transposed);

}  // namespace syncopate::cuda
