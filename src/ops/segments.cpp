#include "ops/segments.h"

#include <algorithm>

#include "ops/context.h"

namespace syncopate {
namespace {

template <typename T>
DeviceVector<T> on_device(Context& context, const std::vector<T>& values) {
  DeviceVector<T> copy(context.device(), context.stream(), std::ssize(values));
  copy.assign(values);
  return copy;
}

}  // namespace

Segments::Segments(Context& context, std::vector<int64_t> begins)
    : begins_(std::move(begins)) {
  CHECK(!begins_.empty() && begins_.front() == 0);
  for (int64_t segment = 0; segment < num_segments(); ++segment) {
    CHECK_MSG(elems(segment) > 0, "tensor {} of {} elements", segment,
              elems(segment));
    first_chunks_.push_back(std::ssize(chunks_));
    const int64_t end = begin(segment + 1);
    for (int64_t at = begin(segment); at < end; at += kChunkElems)
      chunks_.push_back({at,
                         static_cast<int32_t>(std::min(kChunkElems, end - at)),
                         static_cast<int32_t>(segment)});
  }
  first_chunks_.push_back(std::ssize(chunks_));
  device_begins_ = on_device(context, begins_);
  device_first_chunks_ = on_device(context, first_chunks_);
  device_chunks_ = on_device(context, chunks_);
}

}  // namespace syncopate
