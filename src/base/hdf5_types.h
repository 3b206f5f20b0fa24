// Metadata of an HDF5 dataset, element type and shape, as plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace syncopate {

enum class ElementType : uint8_t {
  kFloat32,
  kFloat64,
  kInt32,
  kInt64,
  kUint8,
  kUint64,
  kOther,  // readable as int64 if it is another integer type
};
const char* name_of(ElementType type);

template <typename T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return ElementType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return ElementType::kFloat64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ElementType::kInt32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return ElementType::kInt64;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return ElementType::kUint64;
  else {
    static_assert(std::is_same_v<T, uint8_t>, "no HDF5 type for it");
    return ElementType::kUint8;
  }
}

struct Hdf5Dataset {
  std::string name;  // "a/b/c"
  ElementType type = ElementType::kOther;
  std::vector<int64_t> dims;
  int64_t elems() const;
};
std::string describe(const Hdf5Dataset& dataset);  // "float32 (10, 3)"

// Returns `dims` with the outermost ones halved until a chunk is at most 1 MiB,
// the size of HDF5's chunk cache.
std::vector<int64_t> chunk_shape(std::span<const int64_t> dims,
                                 int64_t elem_bytes);

}  // namespace syncopate
