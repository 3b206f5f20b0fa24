// Common parts of all messages: the tensors of a table as segments, and words
// that hold floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "ops/segments.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// Returns the table's tensors as segments. They belong to the context: the
// workers of one process share them.
const Segments& segments_of(Context& context, const ParameterTable& table);

inline std::span<float> as_floats(std::span<uint32_t> words) {
  return {reinterpret_cast<float*>(words.data()), words.size()};
}
inline std::span<const float> as_floats(std::span<const uint32_t> words) {
  return {reinterpret_cast<const float*>(words.data()), words.size()};
}

}  // namespace syncopate
