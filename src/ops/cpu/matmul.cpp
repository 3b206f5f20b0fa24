// Products by oneDNN's sgemm: row-major, any sizes, nothing to keep per shape,
// and beta = 1 accumulates.
#include <omp.h>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/onednn_adapter.h"
#include "ops/cpu/parallel.h"

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
  if (M == 0 || N == 0) return;
  omp_set_num_threads(context.threads());
  const auto status = dnnl::sgemm(transpose_a, transpose_b, M, N, D, 1.0f, a,
                                  transpose_a == 'N' ? D : M, b,
                                  transpose_b == 'N' ? N : D, beta, c, N);
  CHECK(status == dnnl::status::success);
}

}  // namespace

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstTensor w,
                    ConstTensor b) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  const bool has_bias = b.data != nullptr;
  if (has_bias)
    for (int64_t n = 0; n < N; ++n) std::copy_n(b.f32(), K, y.f32() + n * K);
  gemm(context, 'N', 'T', N, K, D, x.f32(), w.f32(), has_bias ? 1.0f : 0.0f,
       y.f32());
}

void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstTensor w) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (dx.data != nullptr)
    gemm(context, 'N', 'N', N, D, K, dy.f32(), w.f32(), 0.0f, dx.f32());
  gemm(context, 'T', 'N', K, D, N, dy.f32(), x.f32(), 1.0f, dw.f32());
  if (db.data == nullptr) return;
  // Columns side by side, rows in order.
  auto* sum = static_cast<float*>(context.scratch(K * int64_t{sizeof(float)}));
  std::fill_n(sum, K, 0.0f);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) sum[k] += dy.f32()[n * K + k];
  for (int64_t k = 0; k < K; ++k) db.f32()[k] += sum[k];
}

}  // namespace syncopate::cpu
