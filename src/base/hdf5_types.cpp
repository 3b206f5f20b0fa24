#include "base/hdf5_types.h"

#include <fmt/core.h>

namespace syncopate {

const char* name_of(ElementType type) {
  constexpr const char* kNames[] = {"float32",
                                    "float64",
                                    "int32",
                                    "int64",
                                    "uint8",
                                    "uint64",
                                    "an unsupported type"};
  return kNames[static_cast<int>(type)];
}

int64_t Hdf5Dataset::elems() const {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

std::string describe(const Hdf5Dataset& dataset) {
  std::string text = std::string(name_of(dataset.type)) + " (";
  for (size_t axis = 0; axis < dataset.dims.size(); ++axis)
    text += fmt::format("{}{}", axis ? ", " : "", dataset.dims[axis]);
  return text + ")";
}

std::vector<int64_t> chunk_shape(std::span<const int64_t> dims,
                                 int64_t elem_bytes) {
  constexpr int64_t kMaxBytes = 1 << 20;
  std::vector<int64_t> chunk(dims.begin(), dims.end());
  int64_t bytes = elem_bytes;
  for (int64_t dim : dims) bytes *= dim;
  for (int64_t& dim : chunk)
    while (dim > 1 && bytes > kMaxBytes) {
      bytes /= dim;
      dim = (dim + 1) / 2;
      bytes *= dim;
    }
  return chunk;
}

}  // namespace syncopate
