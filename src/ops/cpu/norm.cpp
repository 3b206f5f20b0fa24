// Batch normalisation in two passes over memory per direction: a reduction in
// fixed chunks of rows, whose results are combined in double in index order,
// and an application. Chunks do not depend on threads, layout or batch
// partition.
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/image_view.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

// 512 rows of 16 fp32 channels are 32 KiB, so the second pass over a chunk
// (squares around its own mean) hits the L1 or L2 cache.
constexpr int64_t kChunkRows = 512;

int64_t num_chunks(const ImageView& view) {
  return ceil_div(view.rows(), kChunkRows);
}

// Two numbers per channel of a chunk.
struct Partial {
  float first[kLanes], second[kLanes];
};

// Calls body(group, chunk, first row, last row) for all chunks.
template <typename Body>
void for_chunks(Context& context, const ImageView& view, const Body& body) {
  parallel_for(context, num_chunks(view) * view.groups, view.rows() * view.C,
               [&](int64_t task) {
                 const int64_t chunk = task / view.groups;
                 body(task % view.groups, chunk, chunk * kChunkRows,
                      std::min(view.rows(), (chunk + 1) * kChunkRows));
               });
}

// Sums over the rows of a chunk: add(offset, first, second) adds a row to two
// vectors. Four interleaved streams hide the latency of additions.
struct RowSums {
  F16 first, second;
};
template <typename Add>
RowSums sum_rows(const ImageView& view,
                 int64_t group,
                 int64_t begin,
                 int64_t end,
                 const Add& add) {
  F16 first[4] = {}, second[4] = {};
  for_runs(view, group, begin, end, [&](int64_t offset, int64_t count) {
    int64_t row = 0;
    for (; row + 4 <= count; row += 4)
      for (int stream = 0; stream < 4; ++stream)
        add(offset + (row + stream) * view.row_stride, first[stream],
            second[stream]);
    for (; row < count; ++row)
      add(offset + row * view.row_stride, first[0], second[0]);
  });
  return {(first[0] + first[1]) + (first[2] + first[3]),
          (second[0] + second[1]) + (second[2] + second[3])};
}

// Computes the mean and the sum of squared deviations of every chunk.
template <typename T>
void chunk_statistics(Context& context,
                      const ImageView& view,
                      const T* x,
                      Partial* partials) {
  for_chunks(context, view,
             [&](int64_t group, int64_t chunk, int64_t begin, int64_t end) {
               with_lanes(view, group, [&](auto lanes) {
                 const F16 mean = sum_rows(view, group, begin, end,
                                           [&](int64_t at, F16& sum, F16&) {
                                             sum += lanes.get(x + at);
                                           })
                                      .first *
                                  splat(1.0f / static_cast<float>(end - begin));
                 const F16 squares = sum_rows(view, group, begin, end,
                                              [&](int64_t at, F16& sum, F16&) {
                                                const F16 d =
                                                    lanes.get(x + at) - mean;
                                                sum += d * d;
                                              })
                                         .first;
                 Partial& partial = partials[chunk * view.groups + group];
                 store(partial.first, mean);
                 store(partial.second, squares);
               });
             });
}

struct Moments {
  D16 mean, variance;
};

// Chan, Golub & LeVeque 1979: M2 = sum_i M2_i + sum_i n_i (mean_i - mean)^2.
Moments combine(const ImageView& view, int64_t group, const Partial* partials) {
  const int64_t chunks = num_chunks(view);
  const auto rows = static_cast<double>(view.rows());
  const auto rows_of = [&](int64_t chunk) {
    return static_cast<double>(
        std::min(kChunkRows, view.rows() - chunk * kChunkRows));
  };
  D16 mean = {}, squares = {};
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    mean += to_double(load(partials[chunk * view.groups + group].first)) *
            rows_of(chunk);
  mean /= rows;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Partial& partial = partials[chunk * view.groups + group];
    const D16 distance = to_double(load(partial.first)) - mean;
    squares +=
        to_double(load(partial.second)) + distance * distance * rows_of(chunk);
  }
  return {mean, squares / rows};
}

// Per-channel constants of an application pass, padded to whole groups.
struct Constants {
  float *a, *b, *c, *d, *e;
  Constants(Context& context, const ImageView& view) {
    const int64_t n = view.padded_channels();
    a = scratch<float>(context, 5 * n, 1);
    b = a + n;
    c = b + n;
    d = c + n;
    e = d + n;
    std::fill_n(a, 5 * n, 0.0f);
  }
};

// Calls body(lanes, group)(offset) for every row of every group, in memory
// order as far as the layout allows.
template <typename Body>
void for_rows(Context& context, const ImageView& view, const Body& body) {
  for_chunks(
      context, view, [&](int64_t group, int64_t, int64_t begin, int64_t end) {
        with_lanes(view, group, [&](auto lanes) {
          const auto row_body = body(lanes, group);
          for_runs(view, group, begin, end, [&](int64_t offset, int64_t count) {
            for (int64_t row = 0; row < count; ++row)
              row_body(offset + row * view.row_stride);
          });
        });
      });
}

// y = act((x - a) * b + c [+ z])
template <typename T, bool kHasZ, bool kHasRelu>
void apply(Context& context,
           const ImageView& view,
           T* y,
           const T* x,
           const T* z,
           const Constants& k) {
  for_rows(context, view, [&](auto lanes, int64_t group) {
    const F16 mean = load(k.a + group * kLanes);
    const F16 factor = load(k.b + group * kLanes);
    const F16 shift = load(k.c + group * kLanes);
    return [=](int64_t at) {
      F16 value = (lanes.get(x + at) - mean) * factor + shift;
      if constexpr (kHasZ) value += lanes.get(z + at);
      // Keeps NaN, because NaN < 0 is false.
      if constexpr (kHasRelu) value = value < 0.0f ? F16{} : value;
      lanes.put(y + at, value);
    };
  });
}

// Applies the constants to a call's tensors.
template <typename Args>
void apply(Context& context,
           const ImageView& view,
           const Args& args,
           const Constants& k) {
  with_float_type(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    const bool has_relu = args.params.activation == Activation::kRelu;
    const auto body =
        args.z.data != nullptr
            ? (has_relu ? apply<T, true, true> : apply<T, true, false>)
            : (has_relu ? apply<T, false, true> : apply<T, false, false>);
    body(context, view, static_cast<T*>(args.y.data),
         static_cast<const T*>(args.x.data), static_cast<const T*>(args.z.data),
         k);
  });
}

}  // namespace

void batchnorm_forward(Context& context, const BatchNormForwardArgs& args) {
  const ImageView view = view_of(args.x);
  auto* partials = scratch<Partial>(context, num_chunks(view) * view.groups);
  with_float_type(args.x.dtype, [&](auto element) {
    chunk_statistics(context, view,
                     static_cast<const decltype(element)*>(args.x.data),
                     partials);
  });
  const Constants k(context, view);
  const auto n = static_cast<double>(view.rows());
  const double unbiased = n > 1 ? n / (n - 1) : 1;
  for (int64_t group = 0; group < view.groups; ++group) {
    const Moments moments = combine(view, group, partials);
    for (int lane = 0; lane < view.lanes(group); ++lane) {
      const int64_t c = group * kLanes + lane;
      const double variance = moments.variance[lane];
      args.mean.f32()[c] = static_cast<float>(moments.mean[lane]);
      args.rstd.f32()[c] = static_cast<float>(
          1 / std::sqrt(variance + static_cast<double>(args.params.epsilon)));
      float& running_m = args.running_mean.f32()[c];
      float& running_v = args.running_var.f32()[c];
      running_m += args.params.momentum *
                   (static_cast<float>(moments.mean[lane]) - running_m);
      running_v += args.params.momentum *
                   (static_cast<float>(variance * unbiased) - running_v);
      k.a[c] = args.mean.f32()[c];
      k.b[c] = args.gamma.f32()[c] * args.rstd.f32()[c];
      k.c[c] = args.beta.f32()[c];
    }
  }
  apply(context, view, args, k);
}

void batchnorm_inference(Context& context, const BatchNormInferenceArgs& args) {
  const ImageView view = view_of(args.x);
  const Constants k(context, view);
  for (int64_t c = 0; c < view.C; ++c) {
    k.a[c] = args.running_mean.f32()[c];
    k.b[c] = args.gamma.f32()[c] /
             std::sqrt(args.running_var.f32()[c] + args.params.epsilon);
    k.c[c] = args.beta.f32()[c];
  }
  apply(context, view, args, k);
}

namespace {

// The tensor that tells where the activation was positive: none needed, y or x.
enum class Mask : uint8_t { kNone, kOutput, kInput };

[[gnu::always_inline]] inline F16 rounded(const float*, F16 value) {
  return value;
}
[[gnu::always_inline]] inline F16 rounded(const Bf16*, F16 value) {
  Bf16 narrow[kLanes];
  store(narrow, value);
  return load(narrow);
}

// The gradient before the activation, where kHasSum tells whether there is dy2,
//   g = dy [+ dy2] where y > 0 (without ReLU: everywhere), else 0.
template <typename T, Mask kMask, bool kHasSum>
struct Upstream {
  const T *dy, *dy2, *y;

  // Pointers and constants of one group; the deviation is x - mean.
  struct Group {
    const T *dy, *dy2, *y;
    F16 factor, shift;
    template <typename Lanes>
    [[gnu::always_inline]] F16 get(Lanes lanes,
                                   int64_t at,
                                   F16 deviation) const {
      F16 value = lanes.get(dy + at);
      if constexpr (kHasSum) value = rounded(dy, value + lanes.get(dy2 + at));
      if constexpr (kMask == Mask::kNone) return value;
      if constexpr (kMask == Mask::kOutput)
        return lanes.get(y + at) > 0.0f ? value : F16{};
      return deviation * factor + shift > 0.0f ? value : F16{};
    }
  };
  [[gnu::always_inline]] Group of(int64_t group, const Constants& k) const {
    return {dy, dy2, y, load(k.b + group * kLanes), load(k.e + group * kLanes)};
  }
};

// Sums g and g (x - mean) over every chunk, storing g as dz on the way.
template <typename T, Mask kMask, bool kHasSum, bool kStoreDz>
void chunk_gradients(Context& context,
                     const ImageView& view,
                     T* dz,
                     const Upstream<T, kMask, kHasSum>& upstream,
                     const T* x,
                     const Constants& k,
                     Partial* partials) {
  for_chunks(context, view,
             [&](int64_t group, int64_t chunk, int64_t begin, int64_t end) {
               with_lanes(view, group, [&](auto lanes) {
                 const F16 mean = load(k.a + group * kLanes);
                 const auto gradient = upstream.of(group, k);
                 const RowSums sums = sum_rows(
                     view, group, begin, end,
                     [&](int64_t at, F16& sum, F16& product) {
                       const F16 deviation = lanes.get(x + at) - mean;
                       const F16 g = gradient.get(lanes, at, deviation);
                       sum += g;
                       product += g * deviation;
                       if constexpr (kStoreDz) lanes.put(dz + at, g);
                     });
                 Partial& partial = partials[chunk * view.groups + group];
                 store(partial.first, sums.first);
                 store(partial.second, sums.second);
               });
             });
}

// dx = a' (g - mean(g) - (x - mean) rstd^2 mean(g (x - mean))), a' = gamma rstd
template <typename T, Mask kMask, bool kHasSum>
void apply_backward(Context& context,
                    const ImageView& view,
                    T* dx,
                    const Upstream<T, kMask, kHasSum>& upstream,
                    const T* x,
                    const Constants& k) {
  for_rows(context, view, [&](auto lanes, int64_t group) {
    const F16 mean = load(k.a + group * kLanes);
    const F16 factor = load(k.b + group * kLanes);
    const F16 mean_g = load(k.c + group * kLanes);
    const F16 slope = load(k.d + group * kLanes);
    const auto gradient = upstream.of(group, k);
    return [=](int64_t at) {
      const F16 deviation = lanes.get(x + at) - mean;
      const F16 g = gradient.get(lanes, at, deviation);
      lanes.put(dx + at, factor * (g - mean_g - deviation * slope));
    };
  });
}

// Both sums per channel over all chunks, in double.
struct GradientSums {
  D16 g, product;
};

GradientSums combine_gradients(const ImageView& view,
                               int64_t group,
                               const Partial* partials) {
  D16 g = {}, product = {};
  for (int64_t chunk = 0; chunk < num_chunks(view); ++chunk) {
    const Partial& partial = partials[chunk * view.groups + group];
    g += to_double(load(partial.first));
    product += to_double(load(partial.second));
  }
  return {g, product};
}

// Backward for one element type and mask. With dz the second pass reads g from
// there, which saves reading up to two tensors (g instead of dy, dy2 and y).
template <typename T, Mask kMask, bool kHasSum>
void backward(Context& context, const BatchNormBackwardArgs& args) {
  const ImageView view = view_of(args.x);
  T *dx = static_cast<T*>(args.dx.data), *dz = static_cast<T*>(args.dz.data);
  const T* dy = static_cast<const T*>(args.dy.data);
  const T* x = static_cast<const T*>(args.x.data);
  const float* rstd = args.rstd.f32();
  const Constants k(context, view);
  std::copy_n(args.mean.f32(), view.C, k.a);
  for (int64_t c = 0; c < view.C; ++c) k.b[c] = args.gamma.f32()[c] * rstd[c];
  std::copy_n(args.beta.f32(), view.C, k.e);
  const Upstream<T, kMask, kHasSum> upstream{
      dy, static_cast<const T*>(args.dy2.data),
      static_cast<const T*>(args.y.data)};
  const bool is_dy = kMask == Mask::kNone && !kHasSum;  // g
  const bool store_dz = dz != nullptr && !(is_dy && dz == dy);
  const auto reduce = store_dz ? chunk_gradients<T, kMask, kHasSum, true>
                               : chunk_gradients<T, kMask, kHasSum, false>;
  auto* partials = scratch<Partial>(context, num_chunks(view) * view.groups);
  reduce(context, view, dz, upstream, x, k, partials);

  const auto n = static_cast<double>(view.rows());
  for (int64_t group = 0; group < view.groups; ++group) {
    const GradientSums sums = combine_gradients(view, group, partials);
    for (int lane = 0; lane < view.lanes(group); ++lane) {
      const int64_t c = group * kLanes + lane;
      const double r = rstd[c];
      args.dgamma.f32()[c] += static_cast<float>(sums.product[lane] * r);
      args.dbeta.f32()[c] += static_cast<float>(sums.g[lane]);
      k.c[c] = static_cast<float>(sums.g[lane] / n);
      k.d[c] = static_cast<float>(r * r * sums.product[lane] / n);
    }
  }
  if (dz != nullptr)
    apply_backward(context, view, dx,
                   Upstream<T, Mask::kNone, false>{dz, nullptr, nullptr}, x, k);
  else
    apply_backward(context, view, dx, upstream, x, k);
}

template <typename T, Mask kMask>
void backward(Context& context, const BatchNormBackwardArgs& args) {
  if (args.dy2.data != nullptr)
    backward<T, kMask, true>(context, args);
  else
    backward<T, kMask, false>(context, args);
}

}  // namespace

void batchnorm_backward(Context& context, const BatchNormBackwardArgs& args) {
  with_float_type(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto body = args.params.activation != Activation::kRelu
                          ? backward<T, Mask::kNone>
                      : args.dz.data != nullptr ? backward<T, Mask::kOutput>
                                                : backward<T, Mask::kInput>;
    body(context, args);
  });
}

}  // namespace syncopate::cpu
