// Dense layers by cuBLASLt, the bias fused into the forward product.
#include "cuda/bias.h"
#include "cuda/ops.h"
#include "library/gemm.h"

namespace syncopate::cuda {

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstTensor w,
                    ConstTensor b) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  gemm(context, y.f32(), x.f32(), w.f32(), b.data ? b.f32() : nullptr,
       {.M = N,
        .N = K,
        .D = D,
        .transpose_a = Transpose::kNo,
        .transpose_b = Transpose::kYes,
        .accumulate = Accumulate::kNo});
}

// The library's epilogue for the bias gradient overwrites where this contract
// accumulates, so db has a kernel of its own.
void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstTensor w) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (dx.data != nullptr)
    gemm(context, dx.f32(), dy.f32(), w.f32(), nullptr,
         {.M = N,
          .N = D,
          .D = K,
          .transpose_a = Transpose::kNo,
          .transpose_b = Transpose::kNo,
          .accumulate = Accumulate::kNo});
  gemm(context, dw.f32(), dy.f32(), x.f32(), nullptr,
       {.M = K,
        .N = D,
        .D = N,
        .transpose_a = Transpose::kYes,
        .transpose_b = Transpose::kNo,
        .accumulate = Accumulate::kYes});
  if (db.data != nullptr)
    accumulate_bias(context.stream(), db.f32(), dy.f32(), N, K);
}

}  // namespace syncopate::cuda
