// Batch normalisation of activations viewed as rows (N, H, W) of C channels.
// Each direction consists of a reduction over fixed chunks of rows, a small
// kernel that combines the chunks in order, and an application in one pass.
// Chunks depend only on the shape.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cuda/norm_rows.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

// Computes mean and sum of squared deviations per channel in chunk blockIdx.y.
template <typename T, int V>
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_statistics_kernel(NormPair* partials,  // (chunks, C)
                                const T* x,
                                NormView view,
                                int64_t chunk_rows) {
  const NormPlace place = place_in<V>(view);
  const int64_t begin = blockIdx.y * chunk_rows;
  const int64_t end = lesser(begin + chunk_rows, view.rows);
  const int64_t stride = view.lanes * view.C;
  NormMoments<V> moments = {};
  if (place.is_inside)
    for_rows<kRowsOfOne>(view, place, begin, end, kRowsOfOne * view.lanes,
                         [&](auto rows, int64_t at) {
                           constexpr int kRows = decltype(rows)::value;
                           Pack<T, V> packs[kRows];
                           for (int row = 0; row < kRows; ++row)
                             packs[row] =
                                 Pack<T, V>::load(x + at + row * stride);
                           moments = MergeMoments()(moments, moments_of(packs));
                         });
  moments = reduce_columns(moments, shared_memory<NormMoments<V>>(), view.lanes,
                           view.columns, MergeMoments());
  if (place.is_inside && place.lane == 0)
    for (int index = 0; index < V; ++index)
      partials[blockIdx.y * view.C + place.channel + index] = {
          moments.mean[index], moments.squares[index]};
}

// Combines the chunks' statistics in double. With e_i the distance of a chunk's
// mean from that of the first chunk,
//   mean = mean_0 + sum n_i e_i / n
//   n var = sum (M2_i + n_i e_i^2) - (sum n_i e_i)^2 / n
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_finish_statistics_kernel(float* mean,
                                       float* rstd,
                                       float* running_mean,
                                       float* running_var,
                                       const NormPair* partials,
                                       NormChunks chunks,
                                       float epsilon,
                                       float momentum) {
  const CombinePlace place = combine_place();
  const bool is_inside = place.channel < chunks.C;
  double first_mean = 0;
  if (is_inside) first_mean = partials[place.channel].first;
  const NormTotals totals =
      total_of_chunks(place, chunks, [&](int64_t chunk) -> NormTotals {
        const NormPair part = partials[chunk * chunks.C + place.channel];
        const auto n = static_cast<double>(
            lesser(chunks.chunk_rows, chunks.rows - chunk * chunks.chunk_rows));
        const double distance = part.first - first_mean;
        return {n * distance, part.second + n * distance * distance};
      });
  if (!is_inside || place.lane != 0) return;
  const auto n = static_cast<double>(chunks.rows);
  const double offset = totals.first / n;
  const double squares = totals.second - totals.first * offset;
  // Rounding may make this slightly negative; a NaN stays.
  const double variance = squares < 0 ? 0 : squares / n;
  const double unbiased = n > 1 ? n / (n - 1) : 1;
  const int64_t c = place.channel;
  mean[c] = static_cast<float>(first_mean + offset);
  rstd[c] = static_cast<float>(1 / sqrt(variance + epsilon));
  running_mean[c] += momentum * (mean[c] - running_mean[c]);
  running_var[c] +=
      momentum * (static_cast<float>(variance * unbiased) - running_var[c]);
}

// Whether an application stores bits that tell where y is positive.
enum class StoreMask : uint8_t { kNo, kYes };

// y = act((x - mean) * gamma * rstd + beta [+ z]). `spread` is rstd, or the
// variance if kIsVariance. y may alias x or z.
template <typename T,
          int V,
          bool kHasZ,
          bool kHasRelu,
          bool kIsVariance,
          StoreMask kMask = StoreMask::kNo>
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_apply_kernel(T* y,
                           uint8_t* mask,
                           const T* x,
                           const T* z,
                           const float* mean,
                           const float* spread,
                           const float* gamma,
                           const float* beta,
                           NormView view,
                           float epsilon) {
  const NormPlace place = place_in<V>(view);
  if (!place.is_inside) return;
  float center[V], factor[V], scale[V], shift[V];
  load_channels(center, mean + place.channel);
  load_channels(factor, spread + place.channel);
  load_channels(scale, gamma + place.channel);
  load_channels(shift, beta + place.channel);
  for (int index = 0; index < V; ++index) {
    if constexpr (kIsVariance)
      factor[index] = 1.0f / sqrtf(factor[index] + epsilon);
    factor[index] *= scale[index];
  }
  const int64_t stride = view.lanes * view.C;
  const int64_t span = kRowsOfThree * view.lanes;
  for_rows<kRowsOfThree>(
      view, place, blockIdx.y * span, view.rows, gridDim.y * span,
      [&](auto rows, int64_t at) {
        constexpr int kRows = decltype(rows)::value;
        Pack<T, V> packs[kRows];
        [[maybe_unused]] Pack<T, V> residuals[kHasZ ? kRows : 1];
        for (int row = 0; row < kRows; ++row) {
          packs[row] = Pack<T, V>::load(x + at + row * stride);
          if constexpr (kHasZ)
            residuals[row] = Pack<T, V>::load(z + at + row * stride);
        }
        for (int row = 0; row < kRows; ++row) {
          for (int index = 0; index < V; ++index) {
            float value = normalised(packs[row].get(index) - center[index],
                                     factor[index], shift[index]);
            if constexpr (kHasZ) value += residuals[row].get(index);
            // Keeps NaN, because NaN < 0 is false.
            if constexpr (kHasRelu) value = value < 0 ? 0 : value;
            packs[row].set(index, value);
          }
          packs[row].store(y + at + row * stride);
          if constexpr (kMask == StoreMask::kYes) {
            unsigned bits = 0;
            for (int index = 0; index < V; ++index)
              bits |= (packs[row].get(index) > 0 ? 1u : 0u) << index;
            mask[(at + row * stride) / V] = static_cast<uint8_t>(bits);
          }
        }
      });
}

// With g = dy [+ dy2] where y > 0 (without ReLU: everywhere), else 0: sums g
// and g (x - mean) over chunk blockIdx.y. Stores g as dz on the way; dz may
// alias dy or dy2.
template <typename T, int V, NormMask kMask, bool kHasSum, bool kStoreDz>
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_gradients_kernel(NormPair* partials,  // (chunks, C)
                               T* dz,
                               NormSources<T> from,
                               NormChannels channels,
                               NormView view,
                               int64_t chunk_rows) {
  const NormPlace place = place_in<V>(view);
  const int64_t begin = blockIdx.y * chunk_rows;
  const int64_t end = lesser(begin + chunk_rows, view.rows);
  const int64_t stride = view.lanes * view.C;
  NormSums<V> sums = {};
  if (place.is_inside) {
    NormConstants<V> k;
    load_constants<kMask>(k, channels, place.channel);
    for_rows<kRowsOfThree>(
        view, place, begin, end, kRowsOfThree * view.lanes,
        [&](auto rows, int64_t at) {
          constexpr int kRows = decltype(rows)::value;
          NormUpstream<T, V, kMask, kHasSum, kRows> packs;
          packs.load(from, at, stride);
          for (int row = 0; row < kRows; ++row) {
            for (int index = 0; index < V; ++index) {
              const float g = packs.gradient(row, index, k);
              sums.first[index] += g;
              // Written as one, so that every variant of this kernel rounds
              // alike.
              sums.second[index] =
                  fmaf(g, packs.x[row].get(index) - k.center[index],
                       sums.second[index]);
              if constexpr (kStoreDz) packs.dy[row].set(index, g);
            }
            if constexpr (kStoreDz) packs.dy[row].store(dz + at + row * stride);
          }
        });
  }
  sums = reduce_columns(sums, shared_memory<NormSums<V>>(), view.lanes,
                        view.columns, AddSums());
  if (place.is_inside && place.lane == 0)
    for (int index = 0; index < V; ++index)
      partials[blockIdx.y * view.C + place.channel + index] = {
          sums.first[index], sums.second[index]};
}

// dgamma += rstd sum(g (x - mean)), dbeta += sum(g). For the gradient of the
// input, also computes slopes = (mean(g), rstd^2 mean(g (x - mean))).
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_finish_gradients_kernel(float* dgamma,
                                      float* dbeta,
                                      NormPair* slopes,
                                      const NormPair* partials,
                                      const float* rstd,
                                      NormChunks chunks) {
  const CombinePlace place = combine_place();
  const NormTotals totals =
      total_of_chunks(place, chunks, [&](int64_t chunk) -> NormTotals {
        const NormPair part = partials[chunk * chunks.C + place.channel];
        return {part.first, part.second};
      });
  if (place.channel >= chunks.C || place.lane != 0) return;
  const int64_t c = place.channel;
  const auto n = static_cast<double>(chunks.rows);
  const double r = rstd[c];
  dgamma[c] += static_cast<float>(totals.second * r);
  dbeta[c] += static_cast<float>(totals.first);
  slopes[c] = {static_cast<float>(totals.first / n),
               static_cast<float>(r * r * totals.second / n)};
}

// dx = gamma rstd (g - slopes.first - (x - mean) slopes.second). dx may alias
// dy or dy2.
template <typename T, int V, NormMask kMask, bool kHasSum>
__global__ void __launch_bounds__(kNormThreads)
    batchnorm_input_gradient_kernel(T* dx,
                                    NormSources<T> from,
                                    NormChannels channels,
                                    const NormPair* slopes,
                                    NormView view) {
  const NormPlace place = place_in<V>(view);
  if (!place.is_inside) return;
  NormConstants<V> k;
  load_constants<NormMask::kInput>(k, channels, place.channel);
  float mean_g[V], slope[V];
  for (int index = 0; index < V; ++index) {
    const NormPair pair = slopes[place.channel + index];
    mean_g[index] = pair.first;
    slope[index] = pair.second;
  }
  const int64_t stride = view.lanes * view.C;
  const int64_t span = kRowsOfThree * view.lanes;
  for_rows<kRowsOfThree>(
      view, place, blockIdx.y * span, view.rows, gridDim.y * span,
      [&](auto rows, int64_t at) {
        constexpr int kRows = decltype(rows)::value;
        NormUpstream<T, V, kMask, kHasSum, kRows> packs;
        packs.load(from, at, stride);
        for (int row = 0; row < kRows; ++row) {
          for (int index = 0; index < V; ++index) {
            const float deviation = packs.x[row].get(index) - k.center[index];
            const float g = packs.gradient(row, index, k) - mean_g[index];
            packs.dy[row].set(
                index, k.factor[index] * fmaf(-deviation, slope[index], g));
          }
          packs.dy[row].store(dx + at + row * stride);
        }
      });
}

namespace {

// Returns the rows of x, which is (N, C, H, W) in NHWC or (N, C).
int64_t rows_of(const ConstTensor& x) {
  CHECK(x.shape.rank() == 2 ||
        (x.shape.rank() == 4 && x.layout == Layout::kNhwc));
  CHECK(x.elems() > 0);
  return x.elems() / x.shape[1];
}

// Spreads columns evenly over the groups, so few threads idle.
template <int V>
NormView view_of(const ConstTensor& x) {
  const int64_t C = x.shape[1], packs = C / V;
  const int64_t columns = ceil_div(packs, ceil_div(packs, kMaxColumns));
  return {rows_of(x), C, packs, static_cast<int>(columns),
          static_cast<int>(kNormThreads / columns)};
}

unsigned groups_of(const NormView& view) {
  return static_cast<unsigned>(ceil_div(view.packs, view.columns));
}

// Chunks are whole sweeps of a block, so only the last chunk is ragged.
NormChunks chunks_of(const NormView& view, int rows_in_flight) {
  const int64_t wanted =
      std::max<int64_t>(1, kReductionBlocks / groups_of(view));
  const int64_t sweep = int64_t{rows_in_flight} * view.lanes;
  return {view.rows, view.C,
          ceil_div(ceil_div(view.rows, wanted), sweep) * sweep};
}

dim3 reduction_grid(const NormView& view, const NormChunks& chunks) {
  return dim3(groups_of(view), static_cast<unsigned>(chunks.count()));
}

dim3 application_grid(const NormView& view) {
  const int64_t wanted =
      std::max<int64_t>(1, kApplicationBlocks / groups_of(view));
  const int64_t sweeps =
      ceil_div(view.rows, int64_t{kRowsOfThree} * view.lanes);
  return dim3(groups_of(view), static_cast<unsigned>(std::min(wanted, sweeps)));
}

dim3 combine_grid(const NormChunks& chunks) {
  return dim3(static_cast<unsigned>(ceil_div(chunks.C, kCombineChannels)));
}

NormPair* partials_of(Context& context, const NormChunks& chunks) {
  return static_cast<NormPair*>(
      context.scratch(chunks.count() * chunks.C * int64_t{sizeof(NormPair)}));
}

constexpr int64_t kCombineBytes = kNormThreads * int64_t{sizeof(NormTotals)};

// kIsVariance tells whether `spread` is a variance rather than rstd.
template <bool kIsVariance>
void apply(Context& context,
           const Tensor& y,
           const Tensor& mask,
           const ConstTensor& x,
           const float* mean,
           const float* spread,
           const float* gamma,
           const float* beta,
           const ConstTensor& z,
           const BatchNormParams& params) {
  with_pack(x.dtype, x.shape[1], {y.data, x.data, z.data}, [&](auto pack) {
    using T = typename decltype(pack)::Elem;
    constexpr int V = decltype(pack)::kCount;
    const NormView view = view_of<V>(x);
    const bool has_relu = params.activation == Activation::kRelu;
    auto kernel =
        z.data != nullptr
            ? (has_relu
                   ? batchnorm_apply_kernel<T, V, true, true, kIsVariance>
                   : batchnorm_apply_kernel<T, V, true, false, kIsVariance>)
            : (has_relu
                   ? batchnorm_apply_kernel<T, V, false, true, kIsVariance>
                   : batchnorm_apply_kernel<T, V, false, false, kIsVariance>);
    if (mask.data != nullptr) {
      if constexpr (std::is_same_v<T, Bf16> && V == 8 && !kIsVariance)
        kernel =
            batchnorm_apply_kernel<T, V, true, true, false, StoreMask::kYes>;
      else
        CHECK_MSG(false, "a mask of activations that are not in packs");
    }
    launch(kernel, application_grid(view), dim3(kNormThreads), 0,
           context.stream(), static_cast<T*>(y.data),
           static_cast<uint8_t*>(mask.data), static_cast<const T*>(x.data),
           static_cast<const T*>(z.data), mean, spread, gamma, beta, view,
           params.epsilon);
  });
}

}  // namespace

void batchnorm_forward(Context& context, const BatchNormForwardArgs& args) {
  with_pack(args.x.dtype, args.x.shape[1], {args.x.data}, [&](auto pack) {
    using T = typename decltype(pack)::Elem;
    constexpr int V = decltype(pack)::kCount;
    const NormView view = view_of<V>(args.x);
    const NormChunks chunks = chunks_of(view, kRowsOfOne);
    NormPair* partials = partials_of(context, chunks);
    launch(batchnorm_statistics_kernel<T, V>, reduction_grid(view, chunks),
           dim3(kNormThreads), kNormThreads * int64_t{sizeof(NormMoments<V>)},
           context.stream(), partials, static_cast<const T*>(args.x.data), view,
           chunks.chunk_rows);
    launch(batchnorm_finish_statistics_kernel, combine_grid(chunks),
           dim3(kNormThreads), kCombineBytes, context.stream(), args.mean.f32(),
           args.rstd.f32(), args.running_mean.f32(), args.running_var.f32(),
           partials, chunks, args.params.epsilon, args.params.momentum);
  });
  apply<false>(context, args.y, args.mask, args.x, args.mean.f32(),
               args.rstd.f32(), args.gamma.f32(), args.beta.f32(), args.z,
               args.params);
}

void batchnorm_inference(Context& context, const BatchNormInferenceArgs& args) {
  apply<true>(context, args.y, Tensor(), args.x, args.running_mean.f32(),
              args.running_var.f32(), args.gamma.f32(), args.beta.f32(), args.z,
              args.params);
}

namespace {

NormChannels channels_of(const BatchNormBackwardArgs& args) {
  return {args.mean.f32(), args.rstd.f32(), args.gamma.f32(), args.beta.f32()};
}

// The reduction, which stores g as dz unless dz is null or holds g already.
template <typename T, int V, NormMask kMask, bool kHasSum>
auto gradients_kernel(const BatchNormBackwardArgs& args) {
  if constexpr (kMask != NormMask::kNone) {
    constexpr bool kStoreDz = kMask != NormMask::kInput;
    return batchnorm_gradients_kernel<T, V, kMask, kHasSum, kStoreDz>;
  } else {
    const bool holds_g = !kHasSum && args.dz.data == args.dy.data;
    return args.dz.data != nullptr && !holds_g
               ? batchnorm_gradients_kernel<T, V, kMask, kHasSum, true>
               : batchnorm_gradients_kernel<T, V, kMask, kHasSum, false>;
  }
}

template <typename T, int V, NormMask kMask, bool kHasSum>
void backward(Context& context, const BatchNormBackwardArgs& args) {
  const NormView view = view_of<V>(args.x);
  const NormChunks chunks = chunks_of(view, kRowsOfThree);
  NormPair* partials = partials_of(context, chunks);
  auto* slopes = static_cast<NormPair*>(
      context.scratch(chunks.C * int64_t{sizeof(NormPair)}, 1));
  const NormSources<T> from = {
      static_cast<const T*>(args.dy.data), static_cast<const T*>(args.dy2.data),
      static_cast<const T*>(args.x.data), static_cast<const T*>(args.y.data),
      static_cast<const uint8_t*>(args.mask.data)};
  T* dz = static_cast<T*>(args.dz.data);
  launch(gradients_kernel<T, V, kMask, kHasSum>(args),
         reduction_grid(view, chunks), dim3(kNormThreads),
         kNormThreads * int64_t{sizeof(NormSums<V>)}, context.stream(),
         partials, dz, from, channels_of(args), view, chunks.chunk_rows);
  launch(batchnorm_finish_gradients_kernel, combine_grid(chunks),
         dim3(kNormThreads), kCombineBytes, context.stream(), args.dgamma.f32(),
         args.dbeta.f32(), slopes, partials, args.rstd.f32(), chunks);
  const auto apply = [&](auto kernel, const NormSources<T>& sources) {
    launch(kernel, application_grid(view), dim3(kNormThreads), 0,
           context.stream(), static_cast<T*>(args.dx.data), sources,
           channels_of(args), slopes, view);
  };
  // With dz, reads g from there: one tensor instead of dy, dy2 and a mask.
  if (dz != nullptr)
    apply(batchnorm_input_gradient_kernel<T, V, NormMask::kNone, false>,
          {dz, nullptr, from.x, nullptr, nullptr});
  else if constexpr (kMask == NormMask::kNone || kMask == NormMask::kInput)
    apply(batchnorm_input_gradient_kernel<T, V, kMask, kHasSum>, from);
}

// ReLU's mask comes from bits or y where there was a residual, otherwise from
// x.
template <typename T, int V, bool kHasSum>
void backward(Context& context, const BatchNormBackwardArgs& args) {
  if (args.mask.data != nullptr) {
    if constexpr (std::is_same_v<T, Bf16> && V == 8)
      return backward<T, V, NormMask::kBits, kHasSum>(context, args);
    else
      CHECK_MSG(false, "a mask of activations that are not in packs");
  }
  if (args.params.activation != Activation::kRelu)
    backward<T, V, NormMask::kNone, kHasSum>(context, args);
  else if (args.dz.data != nullptr)
    backward<T, V, NormMask::kOutput, kHasSum>(context, args);
  else
    backward<T, V, NormMask::kInput, kHasSum>(context, args);
}

}  // namespace

void batchnorm_backward(Context& context, const BatchNormBackwardArgs& args) {
  const auto& a = args;
  with_pack(a.x.dtype, a.x.shape[1],
            {a.dx.data, a.dz.data, a.dy.data, a.dy2.data, a.x.data, a.y.data},
            [&](auto pack) {
              using T = typename decltype(pack)::Elem;
              constexpr int V = decltype(pack)::kCount;
              if (a.dy2.data != nullptr)
                backward<T, V, true>(context, a);
              else
                backward<T, V, false>(context, a);
            });
}

}  // namespace syncopate::cuda
