// Dense layers by cuBLASLt, with the bias fused into the forward product; small
// ones by the kernels of cuda/few_outputs.h.
#include "cuda/bias.h"
#include "cuda/few_outputs.h"
#include "cuda/filters.h"
#include "library/gemm.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

constexpr int kMatrixScratch = 0, kBiasScratch = 1;

// Returns a parameter in the product's dtype: itself, or rounded by a kernel.
const void* operand(Context& context,
                    const ConstTensor& parameter,
                    DType dtype,
                    int scratch_index) {
  if (parameter.data == nullptr || dtype == DType::kF32) return parameter.data;
  void* rounded =
      context.scratch(parameter.elems() * bytes_of(dtype), scratch_index);
  const int64_t columns = parameter.shape[parameter.shape.rank() - 1];
  pack_filters(context.stream(), rounded, parameter.f32(),
               {parameter.elems() / columns, columns, 1, 1}, dtype);
  return rounded;
}

}  // namespace

// cuBLASLt's bias has the type of y.
void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstTensor w,
                    ConstTensor b) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (has_few_outputs(N, K)) return few_outputs_forward(context, y, x, w, b);
  const void* matrix = operand(context, w, x.dtype, kMatrixScratch);
  const void* bias = operand(context, b, x.dtype, kBiasScratch);
  gemm(context, y.data, x.data, matrix, nullptr, bias,
       {.M = N,
        .N = K,
        .D = D,
        .transpose_a = Transpose::kNo,
        .transpose_b = Transpose::kYes,
        .input = x.dtype,
        .output = x.dtype});
}

// The library's epilogue for the bias gradient overwrites where this contract
// accumulates, so db has a kernel of its own.
void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstTensor w,
                     ConstTensor addend) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (has_few_outputs(N, K)) {
    few_outputs_backward(context, dx, dw, db, dy, x, w);
    if (addend.data != nullptr) cuda::add(context, dx, dx, addend);
    return;
  }
  if (dx.data != nullptr)
    gemm(context, dx.data, dy.data,
         operand(context, w, x.dtype, kMatrixScratch), addend.data, nullptr,
         {.M = N,
          .N = D,
          .D = K,
          .transpose_a = Transpose::kNo,
          .transpose_b = Transpose::kNo,
          .input = x.dtype,
          .output = x.dtype});
  gemm(context, dw.data, dy.data, x.data, dw.data, nullptr,
       {.M = K,
        .N = D,
        .D = N,
        .transpose_a = Transpose::kYes,
        .transpose_b = Transpose::kNo,
        .input = x.dtype,
        .output = DType::kF32});
  if (db.data != nullptr)
    accumulate_bias(context, db.f32(), dy.data, dy.dtype, N, K);
}

}  // namespace syncopate::cuda
