// Reads and writes weights in the safetensors format: 8 bytes of little-endian
// header length, a JSON header {"name": {"dtype", "shape", "data_offsets"}},
// then the values. https://github.com/huggingface/safetensors#format
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/mapped_file.h"

namespace syncopate {

class SafeTensors {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;           // "F32", "BF16", ...
    std::vector<int64_t> shape;  // empty for a scalar
    int64_t elems = 0;
    int64_t first_byte = 0, end_byte = 0;  // offsets in the file
  };

  // Maps the file and validates the whole header; values are read on demand.
  // Errors: kInputMissing; kBadInput, one line that names the file and the
  // tensor, if the header violates the format: names are unique, dtypes known,
  // sizes equal to shape times dtype, and the values are contiguous from the
  // header to the end of the file.
  explicit SafeTensors(const fs::path& path);

  const std::string& path() const { return file_.path(); }
  // All tensors in the order of their offsets.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return places_.contains(name); }
  // "__metadata__"
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // Error(kBadInput) if there is no such tensor.
  const Tensor& tensor(const std::string& name) const;
  const std::vector<int64_t>& shape(const std::string& name) const {
    return tensor(name).shape;
  }
  // Converts all values, in row-major order, from F32, F64, F16 or BF16; any
  // other dtype (!can_read) is Error(kBadInput). `out` has `elems` elements.
  void read(const std::string& name, std::span<float> out) const;
  bool can_read(const std::string& name) const;

 private:
  MappedFile file_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> places_;  // indices into tensors_
  std::map<std::string, std::string> metadata_;
};

// A tensor to be written: F32 or, if `floats` is empty, I64.
struct SafeTensorValues {
  std::string name;
  std::vector<int64_t> shape;  // empty for a scalar
  std::span<const float> floats;
  std::span<const int64_t> integers;
};

// Writes a file that SafeTensors and other programs read; equal arguments give
// equal bytes. Committed atomically. Error(kCannotCreate), Error(kIoError).
void write_safetensors(const fs::path& path,
                       const std::vector<SafeTensorValues>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace syncopate
