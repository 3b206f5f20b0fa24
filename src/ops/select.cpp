#include "ops/select.h"

#include <algorithm>

#include "ops/bodies.h"

namespace syncopate {
namespace {

void check_encode(std::span<float> values,
                  std::span<uint32_t> places,
                  std::span<const float> x,
                  const Segments& segments,
                  const Selection& selection) {
  CHECK(std::ssize(x) == segments.num_elems());
  CHECK(std::ssize(values) == selection.total());
  CHECK(std::ssize(places) == selection.total());
}

}  // namespace

int64_t kept_of(int64_t elems, double dropped) {
  CHECK_MSG(dropped >= 0 && dropped < 1, "dropped {}", dropped);
  return std::max(int64_t{1}, static_cast<int64_t>(static_cast<double>(elems) *
                                                   (1 - dropped)));
}

std::vector<int64_t> kept_elems(const Segments& segments, double dropped) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < segments.num_segments(); ++i)
    kept.push_back(kept_of(segments.elems(i), dropped));
  return kept;
}

Selection::Selection(Context& context,
                     const Segments& segments,
                     std::vector<int64_t> kept)
    : begins_{0} {
  CHECK(std::ssize(kept) == segments.num_segments());
  CHECK_MSG(segments.num_elems() < int64_t{1} << 32, "{} elements",
            segments.num_elems());
  for (int64_t i = 0; i < segments.num_segments(); ++i) {
    CHECK(kept[i] >= 1 && kept[i] <= segments.elems(i));
    begins_.push_back(begins_.back() + kept[i]);
  }
  device_begins_ = DeviceVector<int64_t>(context.device(), context.stream(),
                                         std::ssize(begins_));
  device_begins_.assign(begins_);
}

void top_k_encode(Context& context,
                  std::span<float> values,
                  std::span<uint32_t> places,
                  std::span<const float> x,
                  const Segments& segments,
                  const Selection& selection) {
  check_encode(values, places, x, segments, selection);
  bodies_of(context).top_k_encode(context, values, places, x, segments,
                                  selection);
}

void random_k_encode(Context& context,
                     std::span<float> values,
                     std::span<uint32_t> places,
                     std::span<const float> x,
                     const Segments& segments,
                     const Selection& selection,
                     const Draw& draw,
                     Scaling scaling) {
  check_encode(values, places, x, segments, selection);
  bodies_of(context).random_k_encode(context, values, places, x, segments,
                                     selection, draw, scaling);
}

void sparse_blend(Context& context,
                  std::span<float> y,
                  std::span<const float> values,
                  std::span<const uint32_t> places,
                  float a,
                  float b) {
  CHECK(values.size() == places.size() && values.size() <= y.size());
  bodies_of(context).sparse_blend(context, y, values, places, a, b);
}

}  // namespace syncopate
