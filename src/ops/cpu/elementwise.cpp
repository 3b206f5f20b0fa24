#include "ops/bodies.h"
#include "ops/cpu/dropout_draws.h"
#include "ops/cpu/image_view.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void add(Context& context, Tensor y, ConstTensor x, ConstTensor z) {
  with_float_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = static_cast<T*>(y.data);
    const T* a = static_cast<const T*>(x.data);
    const T* b = static_cast<const T*>(z.data);
    parallel_vectors(context, y.elems(), [&](auto lanes, int64_t i) {
      lanes.put(to + i, lanes.get(a + i) + lanes.get(b + i));
    });
  });
}

namespace {

// Both tensors have the same element order; only the type may differ.
template <typename To, typename From>
void convert_flat(Context& context, To* to, const From* from, int64_t elems) {
  parallel_vectors(context, elems, [&](auto lanes, int64_t i) {
    lanes.put(to + i, lanes.get(from + i));
  });
}

// Converts between layouts of image tensors, per image and channel group.
template <typename To, typename From>
void convert_images(Context& context,
                    To* to,
                    const ImageView& to_view,
                    const From* from,
                    const ImageView& from_view) {
  parallel_for(
      context, to_view.N * to_view.groups, to_view.rows() * to_view.C,
      [&](int64_t task) {
        const int64_t group = task % to_view.groups;
        const int64_t row = task / to_view.groups * to_view.pixels;
        To* to_plane = to + to_view.offset(group, row);
        const From* from_plane = from + from_view.offset(group, row);
        with_lanes(to_view, group, [&](auto to_lanes) {
          with_lanes(from_view, group, [&](auto from_lanes) {
            for (int64_t pixel = 0; pixel < to_view.pixels; ++pixel)
              to_lanes.put(
                  to_plane + pixel * to_view.row_stride,
                  from_lanes.get(from_plane + pixel * from_view.row_stride));
          });
        });
      });
}

}  // namespace

void reorder(Context& context, Tensor to, ConstTensor from) {
  with_float_type(to.dtype, [&](auto to_element) {
    with_float_type(from.dtype, [&](auto from_element) {
      auto* target = static_cast<decltype(to_element)*>(to.data);
      const auto* source =
          static_cast<const decltype(from_element)*>(from.data);
      if (to.shape.rank() != 4 || to.layout == from.layout)
        convert_flat(context, target, source, to.elems());
      else
        convert_images(context, target, view_of(to), source, view_of(from));
    });
  });
}

void pad_channels(Context& context, Tensor y, ConstTensor x) {
  const int64_t C = x.shape[1], padded = y.shape[1];
  auto* to = static_cast<Bf16*>(y.data);
  const float* from = x.f32();
  parallel_for(context, x.elems() / C, y.elems(), [&](int64_t pixel) {
    for_vectors(0, C, [&](auto lanes, int64_t c) {
      lanes.put(to + pixel * padded + c, lanes.get(from + pixel * C + c));
    });
    std::fill_n(to + pixel * padded + C, padded - C, Bf16{});
  });
}

void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x) {
  const F16 factor = splat(a);
  float* to = y.data();
  const float* from = x.data();
  parallel_vectors(context, std::ssize(y), [&](auto lanes, int64_t i) {
    lanes.put(to + i, lanes.get(to + i) + factor * lanes.get(from + i));
  });
}

void scale(Context& context, std::span<float> y, float a) {
  const F16 factor = splat(a);
  float* to = y.data();
  parallel_vectors(context, std::ssize(y), [&](auto lanes, int64_t i) {
    lanes.put(to + i, lanes.get(to + i) * factor);
  });
}

void scale_by(Context& context, std::span<float> y, const float* a) {
  cpu::scale(context, y, *a);
}

// Element i of sample n takes draw i of Rng(seed, kDropout, first_sample + n).
void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey* key,
             uint64_t salt) {
  const DropoutDraws draws(*key, salt, p);
  const int64_t N = y.shape[0];
  const int64_t sample_elems = y.elems() / N;
  with_float_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    parallel_for(context, N, y.elems(), [&](int64_t n) {
      T* to = static_cast<T*>(y.data) + n * sample_elems;
      const T* from = static_cast<const T*>(x.data) + n * sample_elems;
      draws.for_elements(n, 0, sample_elems,
                         [&](auto lanes, int64_t i, auto keep) {
                           lanes.put(to + i, keep(lanes.get(from + i)));
                         });
    });
  });
}

void store_dropout_key(Context&, DropoutKey* to, const DropoutKey& key) {
  *to = key;
}

}  // namespace syncopate::cpu
