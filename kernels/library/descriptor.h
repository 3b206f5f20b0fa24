// An owned descriptor of cuDNN's graph interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "library/cudnn.h"

namespace syncopate::cuda {

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }

  cudnnBackendDescriptor_t raw() const { return raw_; }

  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           int64_t count,
           const void* values);
  template <typename T>
  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
    set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
  }

  // Reads at most `room` values and returns the attribute's count. The caller
  // checks the status.
  cudnnStatus_t get(cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type,
                    int64_t room,
                    int64_t* count,
                    void* values) const;

  void finalize();
  // Returns false if cuDNN does not support what the descriptor states.
  bool try_finalize();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace syncopate::cuda
