#include "comm/mirror.h"

#include "base/check.h"

namespace syncopate {

Mirror::Mirror(Device& device, std::span<float> range, const Endpoint* messages)
    : device_(device), range_(range) {
  if (is_on_host()) return;
  if (messages != nullptr && messages->takes_device_memory()) return;
  memory_ = HostBuffer(device, static_cast<int64_t>(range.size_bytes()));
  pulls_ = device.make_stream();
  pushes_ = device.make_stream();
  pushed_ = device.make_event();
}

std::span<float> Mirror::host(int64_t offset, int64_t elems) const {
  if (!is_copied()) return range_.subspan(offset, elems);
  CHECK(offset + elems <= std::ssize(range_));
  return {memory_.as<float>() + offset, static_cast<size_t>(elems)};
}

void Mirror::pull(Endpoint& endpoint,
                  int64_t offset,
                  int64_t elems,
                  Event& ready) {
  if (is_on_host()) return;
  if (!is_copied()) return endpoint.wait_for(ready);
  const std::unique_ptr<Event> arrived = device_.make_event();
  ready.wait_on(*pulls_);
  device_.copy(host(offset, elems).data(), range_.data() + offset,
               elems * int64_t{sizeof(float)}, *pulls_);
  arrived->record(*pulls_);
  endpoint.wait_for(*arrived);
}

void Mirror::open(Endpoint& endpoint, Event& ready) {
  if (!is_on_host() && !is_copied()) endpoint.wait_for(ready);
}

void Mirror::push(int64_t offset, int64_t elems) {
  if (!is_copied()) return;
  device_.copy(range_.data() + offset, host(offset, elems).data(),
               elems * int64_t{sizeof(float)}, *pushes_);
  pushed_->record(*pushes_);
}

void Mirror::make_wait(Stream& stream) {
  if (is_copied()) pushed_->wait_on(stream);
}

}  // namespace syncopate
