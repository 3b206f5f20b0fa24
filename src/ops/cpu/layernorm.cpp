#include "ops/layernorm.h"

#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/dropout_draws.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

// Returns row t of a tensor (T, H); null if the tensor has no data.
template <typename T>
T* row_of(const Tensor& tensor, int64_t t) {
  T* data = static_cast<T*>(tensor.data);
  return data == nullptr ? nullptr : data + t * tensor.shape[1];
}
template <typename T>
const T* row_of(const ConstTensor& tensor, int64_t t) {
  const T* data = static_cast<const T*>(tensor.data);
  return data == nullptr ? nullptr : data + t * tensor.shape[1];
}

[[gnu::always_inline]] inline double sum_of_lanes(F16 value) {
  float lane[kLanes];
  store(lane, value);
  double sum = 0;
  for (const float one : lane) sum += static_cast<double>(one);
  return sum;
}

// Zeroes the lanes beyond the end of a group.
[[gnu::always_inline]] inline F16 only(const AllLanes&, F16 value) {
  return value;
}
[[gnu::always_inline]] inline F16 only(const SomeLanes& some, F16 value) {
  return kLane < static_cast<uint32_t>(some.lanes) ? value : F16{};
}

// If z is not kept elsewhere, it is stored in y until the row's moments are
// known. The moments are those of z rounded to its type, which backward sees.
template <typename T>
void forward_row(const LayerNormForwardArgs& args,
                 const TokenDraws& draws,
                 int64_t t) {
  const int64_t H = args.x.shape[1];
  T* const y = row_of<T>(args.y, t);
  T* const z = args.z.data != nullptr ? row_of<T>(args.z, t) : y;
  const T* const x = row_of<T>(args.x, t);
  const T* const residual = row_of<T>(args.residual, t);
  const float *const gamma = args.gamma.f32(), *const beta = args.beta.f32();
  F16 sums = {};
  draws.for_row(t, [&](auto lanes, int64_t h, auto keep) {
    F16 value = keep(lanes.get(x + h));
    if (residual != nullptr) value += lanes.get(residual + h);
    lanes.put(z + h, value);
    sums += lanes.get(z + h);
  });
  const F16 mean =
      splat(static_cast<float>(sum_of_lanes(sums) / static_cast<double>(H)));
  F16 squares = {};
  for_vectors(0, H, [&](auto lanes, int64_t h) {
    const F16 deviation = only(lanes, lanes.get(z + h) - mean);
    squares += deviation * deviation;
  });
  const double variance = sum_of_lanes(squares) / static_cast<double>(H);
  const auto rstd = static_cast<float>(
      1 / std::sqrt(variance + static_cast<double>(args.epsilon)));
  args.mean.f32()[t] = mean[0];
  args.rstd.f32()[t] = rstd;
  for_vectors(0, H, [&](auto lanes, int64_t h) {
    const F16 normal = (lanes.get(z + h) - mean) * rstd;
    lanes.put(y + h, normal * lanes.get(gamma + h) + lanes.get(beta + h));
  });
}

// With g = gamma dy, n = (z - mean) rstd and means over the row:
//   dz = rstd (g - mean(g) - n mean(g n))
// Adds dy n to dgamma and dy to dbeta.
template <typename T>
void backward_row(float* dgamma,
                  float* dbeta,
                  const LayerNormBackwardArgs& args,
                  const TokenDraws& draws,
                  int64_t t) {
  const int64_t H = args.dy.shape[1];
  T* const dx = row_of<T>(args.dx, t);
  T* const dresidual = row_of<T>(args.dresidual, t);
  const T *const dy = row_of<T>(args.dy, t), *const z = row_of<T>(args.z, t);
  const float* const gamma = args.gamma.f32();
  const F16 mean = splat(args.mean.f32()[t]), rstd = splat(args.rstd.f32()[t]);
  F16 sums = {}, products = {};
  for_vectors(0, H, [&](auto lanes, int64_t h) {
    const F16 upstream = lanes.get(dy + h);
    const F16 normal = only(lanes, (lanes.get(z + h) - mean) * rstd);
    const F16 g = upstream * lanes.get(gamma + h);
    lanes.put(dgamma + h, lanes.get(dgamma + h) + upstream * normal);
    lanes.put(dbeta + h, lanes.get(dbeta + h) + upstream);
    sums += g;
    products += g * normal;
  });
  const auto share = 1 / static_cast<double>(H);
  const F16 mean_g = splat(static_cast<float>(sum_of_lanes(sums) * share));
  const F16 mean_gn = splat(static_cast<float>(sum_of_lanes(products) * share));
  draws.for_row(t, [&](auto lanes, int64_t h, auto keep) {
    const F16 g = lanes.get(dy + h) * lanes.get(gamma + h);
    const F16 normal = (lanes.get(z + h) - mean) * rstd;
    const F16 dz = rstd * (g - mean_g - normal * mean_gn);
    if (dresidual != nullptr) lanes.put(dresidual + h, dz);
    lanes.put(dx + h, keep(dz));
  });
}

// to[h] += sum of partial[chunk * stride + h], in order of the chunks.
void add_partials(Context& context,
                  float* to,
                  const float* partial,
                  int64_t chunks,
                  int64_t stride,
                  int64_t H) {
  constexpr int64_t kColumns = 64;  // one cache line is too little at a time
  parallel_for(context, ceil_div(H, kColumns), chunks * H, [&](int64_t task) {
    const int64_t begin = task * kColumns;
    for_vectors(
        begin, std::min(begin + kColumns, H), [&](auto lanes, int64_t h) {
          D16 sum = {};
          for (int64_t chunk = 0; chunk < chunks; ++chunk)
            sum += to_double(lanes.get(partial + chunk * stride + h));
          lanes.put(to + h,
                    lanes.get(to + h) + __builtin_convertvector(sum, F16));
        });
  });
}

}  // namespace

void layernorm_forward(Context& context, const LayerNormForwardArgs& args) {
  const int64_t rows = args.x.shape[0], H = args.x.shape[1];
  const TokenDraws draws(args.sequences, args.dropout, H);
  with_float_type(args.x.dtype, [&](auto element) {
    parallel_for(context, rows, rows * H, [&](int64_t t) {
      forward_row<decltype(element)>(args, draws, t);
    });
  });
}

void layernorm_backward(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t rows = args.dy.shape[0], H = args.dy.shape[1];
  const TokenDraws draws(args.sequences, args.dropout, H);
  // Each chunk of rows has its own sums: enough chunks to occupy every core,
  // few enough that the sums are small compared with the rows.
  constexpr int64_t kMaxChunks = 256, kMinRows = 16;
  const int64_t chunk_rows = std::max(kMinRows, ceil_div(rows, kMaxChunks));
  const int64_t chunks = ceil_div(rows, chunk_rows);
  auto* partial = scratch<float>(context, chunks * 2 * H);
  with_float_type(args.dy.dtype, [&](auto element) {
    parallel_for(context, chunks, rows * H, [&](int64_t chunk) {
      float* sums = partial + chunk * 2 * H;
      std::fill(sums, sums + 2 * H, 0.0f);
      const int64_t end = std::min(rows, (chunk + 1) * chunk_rows);
      for (int64_t t = chunk * chunk_rows; t < end; ++t)
        backward_row<decltype(element)>(sums, sums + H, args, draws, t);
    });
  });
  add_partials(context, args.dgamma.f32(), partial, chunks, 2 * H, H);
  add_partials(context, args.dbeta.f32(), partial + H, chunks, 2 * H, H);
  if (args.dbias.data == nullptr) return;
  with_float_type(args.dx.dtype, [&](auto type) {
    add_column_sums(context, args.dbias.f32(),
                    static_cast<const decltype(type)*>(args.dx.data), rows, H);
  });
}

}  // namespace syncopate::cpu
