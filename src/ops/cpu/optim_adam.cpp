// Adam in one pass over parameters, moments and gradient; for tables of which a
// batch touches few rows, in one pass over the gradient and those rows.
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/subnormal.h"

namespace syncopate::cpu {
namespace {

[[gnu::always_inline]] inline F16 square_root(F16 value) {
  float lane[kLanes];
  store(lane, value);
  for (float& of : lane) of = std::sqrt(of);
  return load(lane);
}

// The first `lanes` of sixteen elements, all of which may be read, and written
// back unchanged.
struct FirstLanes {
  int lanes;
  [[gnu::always_inline]] F16 get(const float* from) const { return load(from); }
  [[gnu::always_inline]] void put(float* to, F16 value) const {
    store(to, kLane < static_cast<uint32_t>(lanes) ? value : load(to));
  }
};

// Evaluates `direction` for sixteen elements at a time of all ranges, with
// reciprocals of the formula's divisors.
class Adam {
 public:
  Adam(float* m, float* v, const float* gradient, const AdamParams& params)
      : m_(m),
        v_(v),
        gradient_(gradient),
        beta1_(params.beta1),
        beta2_(params.beta2),
        rest1_(params.rest1),
        rest2_(params.rest2),
        eps_(params.eps),
        grad_scale_(params.clip_factor == nullptr
                        ? params.grad_scale
                        : params.grad_scale * *params.clip_factor),
        coupled_(params.is_decoupled ? 0 : params.weight_decay),
        decoupled_(params.is_decoupled ? params.weight_decay : 0),
        per_correction1_(1 / params.correction1),
        per_correction2_(1 / params.correction2) {}

  // Returns d at i for parameters x, and writes the moments.
  template <typename Lanes>
  [[gnu::always_inline]] F16 direction(const Lanes& lanes,
                                       int64_t i,
                                       const F16& x) const {
    const F16 g = grad_scale_ * lanes.get(gradient_ + i) + coupled_ * x;
    const F16 m = zero_if_subnormal(beta1_ * lanes.get(m_ + i) + rest1_ * g);
    const F16 v =
        zero_if_subnormal(beta2_ * lanes.get(v_ + i) + rest2_ * g * g);
    lanes.put(m_ + i, m);
    lanes.put(v_ + i, v);
    return m * per_correction1_ / (square_root(v * per_correction2_) + eps_) +
           decoupled_ * x;
  }

  const float* gradient() const { return gradient_; }

 private:
  float *m_, *v_;
  const float* gradient_;
  float beta1_, beta2_, rest1_, rest2_, eps_, grad_scale_, coupled_, decoupled_;
  float per_correction1_, per_correction2_;
};

// Returns the index of the first nonzero element in [begin, end), or end.
int64_t first_nonzero(const float* values, int64_t begin, int64_t end) {
  constexpr int64_t kStride = 8 * kLanes;
  const auto has_any = [values](int64_t from, int64_t elems) {
    U16 bits{};
    for (int64_t i = from; i < from + elems; i += kLanes)
      bits |= reinterpret_cast<U16>(load(values + i));
    uint32_t any = 0;
    for (int lane = 0; lane < kLanes; ++lane) any |= bits[lane];
    return (any & 0x7FFFFFFF) != 0;  // -0 counts as zero
  };
  int64_t at = begin;
  while (at + kStride <= end && !has_any(at, kStride)) at += kStride;
  while (at + kLanes <= end && !has_any(at, kLanes)) at += kLanes;
  while (at < end && values[at] == 0) ++at;
  return at;
}

// Calls step(lanes, i) for all of [begin, end), sixteen at a time. Memory may
// be read and written up to `limit`.
template <typename Step>
void for_row(int64_t begin, int64_t end, int64_t limit, const Step& step) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) step(AllLanes{}, i);
  if (i == end) return;
  const int rest = static_cast<int>(end - i);
  if (i + kLanes <= limit)
    step(FirstLanes{rest}, i);
  else
    step(SomeLanes{rest, 1}, i);
}

// Calls step(lanes, i) for all elements, or only for rows with a nonzero
// gradient, and skip(begin, end) for the other rows.
template <typename Step, typename Skip>
void for_elements(Context& context,
                  int64_t elems,
                  const AdamParams& params,
                  const float* gradient,
                  const Step& step,
                  const Skip& skip) {
  if (params.lazy_row == 0) {
    parallel_vectors(context, elems, step);
    return;
  }
  constexpr int64_t kPieceElems = 8192;
  const int64_t row = params.lazy_row;
  const int64_t piece = std::max<int64_t>(1, kPieceElems / row) * row;
  parallel_for(context, ceil_div(elems, piece), elems, [&](int64_t task) {
    const int64_t end = std::min(elems, (task + 1) * piece);
    int64_t at = task * piece;  // rows before it are done
    const auto take = [&](int64_t first, int64_t last) {
      for (int64_t from = std::max(first, at); from < last; from = at) {
        const int64_t found = first_nonzero(gradient, from, last);
        if (found == last) return;
        const int64_t begin = found / row * row;
        skip(at, begin);
        at = begin + row;
        for_row(begin, at, end, step);
      }
    };
    for_touched(params.touched, gradient, at, end, take);
    skip(at, end);
  });
}

}  // namespace

void adam_update(Context& context,
                 std::span<float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params) {
  const Adam adam(m.data(), v.data(), gradient.data(), params);
  float* to = x.data();
  const float rate = params.rate;
  for_elements(
      context, std::ssize(x), params, gradient.data(),
      [&](auto lanes, int64_t i) {
        const F16 old = lanes.get(to + i);
        lanes.put(to + i, old - rate * adam.direction(lanes, i, old));
      },
      [](int64_t, int64_t) {});
  cpu::copy_weights(context, x, params.copies);
}

void adam_direction(Context& context,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<float> m,
                    std::span<float> v,
                    std::span<const float> gradient,
                    const AdamParams& params) {
  const Adam adam(m.data(), v.data(), gradient.data(), params);
  float* to = direction.data();
  const float* from = x.data();
  for_elements(
      context, std::ssize(x), params, gradient.data(),
      [&](auto lanes, int64_t i) {
        lanes.put(to + i, adam.direction(lanes, i, lanes.get(from + i)));
      },
      [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, 0); });
}

}  // namespace syncopate::cpu
