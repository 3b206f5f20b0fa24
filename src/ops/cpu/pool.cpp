#include "ops/bodies.h"
#include "ops/cpu/image_view.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

// Calls body(lanes, image, group) for each image and group.
template <typename Body>
void for_planes(Context& context, const ImageView& view, const Body& body) {
  parallel_for(
      context, view.N * view.groups, view.rows() * view.C, [&](int64_t task) {
        const int64_t group = task % view.groups;
        with_lanes(view, group,
                   [&](auto lanes) { body(lanes, task / view.groups, group); });
      });
}

// Returns the lanes of a row-major (N, C) tensor.
SomeLanes lanes_of_row(const ImageView& view, int64_t group) {
  return {view.lanes(group), 1};
}

}  // namespace

void global_average_pool_forward(Context& context, Tensor y, ConstTensor x) {
  const ImageView view = view_of(x);
  const F16 share = splat(1.0f / static_cast<float>(view.pixels));
  with_float_type(x.dtype, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(x.data);
    float* to = y.f32();
    for_planes(context, view, [&](auto lanes, int64_t image, int64_t group) {
      const int64_t base = view.offset(group, image * view.pixels);
      F16 sum[2] = {};
      for (int64_t pixel = 0; pixel < view.pixels; ++pixel)
        sum[pixel & 1] += lanes.get(from + base + pixel * view.row_stride);
      lanes_of_row(view, group)
          .put(to + image * view.C + group * kLanes, (sum[0] + sum[1]) * share);
    });
  });
}

void global_average_pool_backward(Context& context, Tensor dx, ConstTensor dy) {
  const ImageView view = view_of(dx);
  const F16 share = splat(1.0f / static_cast<float>(view.pixels));
  with_float_type(dx.dtype, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(dx.data);
    const float* from = dy.f32();
    for_planes(context, view, [&](auto lanes, int64_t image, int64_t group) {
      const int64_t base = view.offset(group, image * view.pixels);
      const F16 value = lanes_of_row(view, group)
                            .get(from + image * view.C + group * kLanes) *
                        share;
      for (int64_t pixel = 0; pixel < view.pixels; ++pixel)
        lanes.put(to + base + pixel * view.row_stride, value);
    });
  });
}

namespace {

struct MaxPool {
  ImageView x, y;
  int64_t H, W, P, Q;
  PoolSize size;

  MaxPool(const ConstTensor& image,
          const ConstTensor& pooled,
          const PoolSize& pool_size)
      : x(view_of(image)),
        y(view_of(pooled)),
        H(image.shape[2]),
        W(image.shape[3]),
        P(pooled.shape[2]),
        Q(pooled.shape[3]),
        size(pool_size) {}
};

[[gnu::always_inline]] inline U16 get_bytes(const AllLanes&,
                                            const uint8_t* from) {
  B16 bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, U16);
}
[[gnu::always_inline]] inline U16 get_bytes(const SomeLanes& some,
                                            const uint8_t* from) {
  U16 value = {};
  for (int lane = 0; lane < some.lanes; ++lane)
    value[lane] = from[lane * some.stride];
  return value;
}
[[gnu::always_inline]] inline void put_bytes(const AllLanes&,
                                             uint8_t* to,
                                             U16 value) {
  const B16 bytes = __builtin_convertvector(value, B16);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
[[gnu::always_inline]] inline void put_bytes(const SomeLanes& some,
                                             uint8_t* to,
                                             U16 value) {
  for (int lane = 0; lane < some.lanes; ++lane)
    to[lane * some.stride] = static_cast<uint8_t>(value[lane]);
}

// Takes the maximum of the window at (p, q); a NaN wins and stays.
template <typename T, typename Lanes>
void max_of_window(const MaxPool& pool,
                   const Lanes& lanes,
                   const T* plane,
                   int64_t p,
                   int64_t q,
                   F16& best,
                   U16& position) {
  const auto [window, stride, pad] = pool.size;
  const int64_t top = p * stride - pad, left = q * stride - pad;
  bool is_first = true;
  for (int64_t r = std::max<int64_t>(0, -top);
       r < std::min(window, pool.H - top); ++r)
    for (int64_t s = std::max<int64_t>(0, -left);
         s < std::min(window, pool.W - left); ++s) {
      const F16 value = lanes.get(plane + ((top + r) * pool.W + left + s) *
                                              pool.x.row_stride);
      const U16 here = static_cast<uint32_t>(r * window + s) - U16{};
      if (is_first) {
        best = value;
        position = here;
        is_first = false;
        continue;
      }
      const auto wins = (value > best) | (value != value);
      position = wins ? here : position;
      best = wins ? value : best;
    }
}

// Returns the gradient of pixel (h, w): the sum over every window that chose
// it, in row order.
template <typename T, typename Lanes>
[[gnu::always_inline]] inline F16 gradient_of_pixel(const MaxPool& pool,
                                                    const Lanes& lanes,
                                                    const T* dy,
                                                    const uint8_t* argmax,
                                                    int64_t h,
                                                    int64_t w) {
  const auto [window, stride, pad] = pool.size;
  const auto first = [&](int64_t at) {
    return at + pad < window ? 0 : (at + pad - window) / stride + 1;
  };
  F16 sum = {};
  for (int64_t p = first(h); p < pool.P && p * stride - pad <= h; ++p)
    for (int64_t q = first(w); q < pool.Q && q * stride - pad <= w; ++q) {
      const int64_t at = (p * pool.Q + q) * pool.y.row_stride;
      const auto here = static_cast<uint32_t>(
          (h - (p * stride - pad)) * window + w - (q * stride - pad));
      const U16 chosen = get_bytes(lanes, argmax + at);
      sum += chosen == here ? lanes.get(dy + at) : F16{};
    }
  return sum;
}

}  // namespace

void max_pool_forward(Context& context,
                      Tensor y,
                      Tensor argmax,
                      ConstTensor x,
                      const PoolSize& size) {
  const MaxPool pool(x, y, size);
  with_float_type(x.dtype, [&](auto element) {
    using T = decltype(element);
    for_planes(context, pool.x, [&](auto lanes, int64_t image, int64_t group) {
      const T* plane = static_cast<const T*>(x.data) +
                       pool.x.offset(group, image * pool.x.pixels);
      const auto y_lanes = at_stride(lanes, pool.y.lane_stride);
      const int64_t base = pool.y.offset(group, image * pool.y.pixels);
      for (int64_t p = 0; p < pool.P; ++p)
        for (int64_t q = 0; q < pool.Q; ++q) {
          F16 best = {};
          U16 position = {};
          max_of_window(pool, lanes, plane, p, q, best, position);
          const int64_t at = base + (p * pool.Q + q) * pool.y.row_stride;
          y_lanes.put(static_cast<T*>(y.data) + at, best);
          put_bytes(y_lanes, static_cast<uint8_t*>(argmax.data) + at, position);
        }
    });
  });
}

void max_pool_backward(Context& context,
                       Tensor dx,
                       ConstTensor dy,
                       ConstTensor argmax,
                       const PoolSize& size) {
  const MaxPool pool(dx, dy, size);
  with_float_type(dx.dtype, [&](auto element) {
    using T = decltype(element);
    for_planes(context, pool.x, [&](auto lanes, int64_t image, int64_t group) {
      T* plane = static_cast<T*>(dx.data) +
                 pool.x.offset(group, image * pool.x.pixels);
      const auto y_lanes = at_stride(lanes, pool.y.lane_stride);
      const int64_t base = pool.y.offset(group, image * pool.y.pixels);
      for (int64_t h = 0; h < pool.H; ++h)
        for (int64_t w = 0; w < pool.W; ++w)
          lanes.put(plane + (h * pool.W + w) * pool.x.row_stride,
                    gradient_of_pixel(
                        pool, y_lanes, static_cast<const T*>(dy.data) + base,
                        static_cast<const uint8_t*>(argmax.data) + base, h, w));
    });
  });
}

}  // namespace syncopate::cpu
