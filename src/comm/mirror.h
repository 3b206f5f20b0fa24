// Host memory through which a range of a device travels between workers: a
// range in host memory is its own mirror, and nothing is copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "comm/endpoint.h"

namespace syncopate {

class Mirror {
 public:
  // The range must stay where it is.
  Mirror(Device& device, std::span<float> range);

  // Elements [offset, offset + elems) as the last pull left them.
  std::span<float> host(int64_t offset, int64_t elems) const;

  // Brings elements to the host once the device has come to `ready`; they are
  // there at return. For tasks: others go on meanwhile.
  void pull(Endpoint& endpoint, int64_t offset, int64_t elems, Event& ready);
  // Sends elements back to the device; what is given to a stream after
  // make_wait() comes behind it. host() must stay as it is until then, so the
  // next pull's `ready` is behind a make_wait().
  void push(int64_t offset, int64_t elems);
  void make_wait(Stream& stream);

 private:
  bool is_on_host() const { return device_.kind() == DeviceKind::kCpu; }
  Device& device_;
  std::span<float> range_;
  HostBuffer memory_;  // of the range's size; none if it is on the host
  // One each way: what comes back does not queue behind what is still to go.
  std::unique_ptr<Stream> pulls_, pushes_;
  std::unique_ptr<Event> pushed_;
};

}  // namespace syncopate
