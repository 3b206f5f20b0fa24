// Common parts of all messages: the tensors of a table as segments, and words
// that hold floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "ops/segments.h"
#include "tensor/parameter_table.h"

namespace syncopate {

inline Segments segments_of(Context& context, const ParameterTable& table) {
  std::vector<int64_t> begins;
  for (const ParameterEntry& entry : table.entries())
    begins.push_back(entry.offset);
  begins.push_back(table.num_elems());
  return {context, std::move(begins)};
}

inline std::span<float> as_floats(std::span<uint32_t> words) {
  return {reinterpret_cast<float*>(words.data()), words.size()};
}
inline std::span<const float> as_floats(std::span<const uint32_t> words) {
  return {reinterpret_cast<const float*>(words.data()), words.size()};
}

}  // namespace syncopate
