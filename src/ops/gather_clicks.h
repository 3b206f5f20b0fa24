// Copies a batch out of click records that lie in the memory of the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

namespace syncopate {

// Assigns rows[n] = table[samples[n]] and labels[n] = clicked[samples[n]]. A
// sample outside [0, S) is an error on the CPU; on a GPU its rows are -1.
void gather_clicks(Context& context,
                   Tensor rows,           // (N, F) i32
                   Tensor labels,         // (N) i32
                   ConstTensor table,     // (S, F) i32
                   ConstTensor clicked,   // (S) u8
                   ConstTensor samples);  // (N) i32

}  // namespace syncopate
