// Looks up and sums rows of tables; backward adds up the gradients of each row
// in token order, so the sum depends on nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

struct EmbeddingInput {
  ConstTensor table;  // (V, D) fp32
  ConstTensor ids;    // (T) i32, in [0, V): checked on the CPU, NaN on a GPU
};

// Assigns y[t] = sum over inputs of table[ids[t]], in the order of the inputs.
void embedding_forward(Context& context,
                       Tensor y,  // (T, D) fp32 or bf16
                       std::span<const EmbeddingInput> inputs);  // 1 to 3

// dtable[v] += sum over t with ids[t] == v of dy[t], in order of t.
void embedding_backward(Context& context,
                        Tensor dtable,     // (V, D) fp32, accumulated
                        ConstTensor dy,    // (T, D) fp32 or bf16
                        ConstTensor ids);  // (T) i32

}  // namespace syncopate
