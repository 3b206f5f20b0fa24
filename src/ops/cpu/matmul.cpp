// Products by oneDNN: its blocked form for many rows; its plain one for small
// operands, which do not repay a copy, and for fp32 weight gradients, where it
// is faster and accumulates.
#include <omp.h>

#include "ops/bodies.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/few_outputs.h"
#include "ops/cpu/onednn_adapter.h"
#include "ops/cpu/row_products.h"

namespace syncopate::cpu {
namespace {

// c (M, N) = a b + beta c; `a` is (M, D), or (D, M) if transposed, and so on.
void gemm(Context& context,
          char transpose_a,
          char transpose_b,
          int64_t M,
          int64_t N,
          int64_t D,
          const float* a,
          const float* b,
          float beta,
          float* c) {
  omp_set_num_threads(context.threads());
  const auto status = dnnl::sgemm(transpose_a, transpose_b, M, N, D, 1.0f, a,
                                  transpose_a == 'N' ? D : M, b,
                                  transpose_b == 'N' ? N : D, beta, c, N);
  CHECK(status == dnnl::status::success);
  context.ran_by("oneDNN sgemm");
}

// Measured with oneDNN 2.6 on Zen 5. In fp32 the blocked form pays off if there
// are many rows to amortise its copy of w, unless w is so large that the plain
// form is as fast. bf16 has no plain form.
bool is_worth_blocks(DType dtype, int64_t N, int64_t D, int64_t K) {
  constexpr int64_t kManyRows = 1024, kWide = 16, kLargeMatrix = 1 << 19;
  return dtype == DType::kBf16 ||
         (N >= kManyRows && std::min(D, K) >= kWide && D * K <= kLargeMatrix);
}

}  // namespace

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstWeight w,
                    ConstWeight b) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (K <= kMostFewOutputs) return few_outputs_forward(context, y, x, w, b);
  const float* bias = b.data == nullptr ? nullptr : b.f32();
  if (is_worth_blocks(x.dtype, N, D, K))
    return multiply_rows(context,
                         {.dtype = x.dtype,
                          .inner = D,
                          .columns = K,
                          .form = MatrixForm::kColumnsByInner,
                          .has_bias = bias != nullptr},
                         y.data, x.data, w.f32(), bias, N);
  if (bias != nullptr)
    for (int64_t n = 0; n < N; ++n) std::copy_n(bias, K, y.f32() + n * K);
  gemm(context, 'N', 'T', N, K, D, x.f32(), w.f32(),
       bias != nullptr ? 1.0f : 0.0f, y.f32());
}

void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstWeight w,
                     ConstTensor addend) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (db.data != nullptr)
    with_float_type(dy.dtype, [&](auto type) {
      add_column_sums(context, db.f32(),
                      static_cast<const decltype(type)*>(dy.data), N, K);
    });
  if (K <= kMostFewOutputs) {
    few_outputs_backward(context, dx, dw, dy, x, w);
    if (addend.data != nullptr) cpu::add(context, dx, dx, addend);
    return;
  }
  if (dx.data != nullptr && is_worth_blocks(x.dtype, N, K, D))
    multiply_rows(context,
                  {.dtype = x.dtype,
                   .inner = K,
                   .columns = D,
                   .form = MatrixForm::kInnerByColumns,
                   .has_bias = false},
                  dx.data, dy.data, w.f32(), nullptr, N);
  else if (dx.data != nullptr)
    gemm(context, 'N', 'N', N, D, K, dy.f32(), w.f32(), 0.0f, dx.f32());
  if (addend.data != nullptr) cpu::add(context, dx, dx, addend);
  if (x.dtype == DType::kBf16)
    accumulate_products(context, dw.f32(), static_cast<const Bf16*>(dy.data),
                        static_cast<const Bf16*>(x.data), N, K, D);
  else
    gemm(context, 'T', 'N', K, D, N, dy.f32(), x.f32(), 1.0f, dw.f32());
}

}  // namespace syncopate::cpu
