// Shared by the two halves of the HDF5 wrapper: open objects, and the cause of
// a failed call. Only hdf5_*.cpp include it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "base/hdf5_file.h"

namespace syncopate {

static_assert(std::is_same_v<hid_t, int64_t>, "HDF5 before 1.10");

// Why the last call failed: errno if a system call did, else HDF5's message.
struct Hdf5Cause {
  int error_number = 0;
  std::string text;
};
Hdf5Cause last_hdf5_cause();

// Owns an open HDF5 object. The Handle of a failed call holds a negative id.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0 && !hdf5_has_failed()) close_(id_);
  }
  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }
  bool close() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

hid_t native_type(ElementType type);

}  // namespace syncopate
