// Host memory through which a range of device memory is exchanged between
// workers. A range in host memory is its own mirror and is not copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "comm/endpoint.h"

namespace syncopate {

// Whether messages of this endpoint travel from and to the device's memory.
inline bool sends_from_device(const Device& device, const Endpoint& endpoint) {
  return device.kind() == DeviceKind::kCuda && endpoint.takes_device_memory();
}

class Mirror {
 public:
  // The range must stay at its address. `messages`: of values that the host
  // only hands to this endpoint; if it takes device memory, host() is the range
  // itself, to be sent and received into after pull(), and nothing is copied.
  Mirror(Device& device,
         std::span<float> range,
         const Endpoint* messages = nullptr);

  // Returns elements [offset, offset + elems) as the last pull left them.
  std::span<float> host(int64_t offset, int64_t elems) const;

  // Copies elements to the host once the device has reached `ready`, and
  // returns when they are there. For tasks: others run in the meantime.
  void pull(Endpoint& endpoint, int64_t offset, int64_t elems, Event& ready);
  // For messages received into host() without a pull: returns once the device
  // has reached `ready` if host() is the device's memory.
  void open(Endpoint& endpoint, Event& ready);
  // Copies elements back to the device; work submitted to a stream after
  // make_wait() runs after it. host() must stay unchanged until then, so the
  // next pull's `ready` must come after a make_wait().
  void push(int64_t offset, int64_t elems);
  void make_wait(Stream& stream);

 private:
  bool is_on_host() const { return device_.kind() != DeviceKind::kCuda; }
  bool is_copied() const { return pulls_ != nullptr; }
  Device& device_;
  std::span<float> range_;
  HostBuffer memory_;  // of the range's size; empty if nothing is copied
  // One per direction, so that copies back do not queue behind copies out.
  std::unique_ptr<Stream> pulls_, pushes_;
  std::unique_ptr<Event> pushed_;
};

}  // namespace syncopate
