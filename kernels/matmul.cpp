// Dense layers by cuBLASLt, with the bias fused into the forward product; small
// ones by the kernels of cuda/few_outputs.h.
#include "cuda/bias.h"
#include "cuda/few_outputs.h"
#include "cuda/filters.h"
#include "library/gemm.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

// Whether the kernels of few_outputs.h take a product: small ones, and those of
// activations that the library would not take. A network's activations are
// aligned; matrices within a gradient (PowerSGD's), which are not where its
// tensors have odd sizes, are multiplied with few others.
bool is_for_kernels(const ConstTensor& x,
                    const ConstTensor& y,
                    const ConstTensor& dx = {}) {
  return has_few_outputs(x.shape[0], y.shape[1]) || !is_gemm_aligned(x.data) ||
         !is_gemm_aligned(y.data) || !is_gemm_aligned(dx.data);
}

constexpr int kMatrixScratch = 0, kBiasScratch = 1, kGradientScratch = 2;

// Returns a parameter in the product's dtype at an address that the library
// takes: itself, its copy, or one made here.
const void* operand(Context& context,
                    const ConstWeight& parameter,
                    DType dtype,
                    int scratch_index) {
  const bool is_ready = dtype == DType::kF32 && is_gemm_aligned(parameter.data);
  if (parameter.data == nullptr || is_ready) return parameter.data;
  if (dtype == DType::kBf16 && parameter.copy != nullptr) return parameter.copy;
  void* rounded =
      context.scratch(parameter.elems() * bytes_of(dtype), scratch_index);
  const int64_t columns = parameter.shape[parameter.shape.rank() - 1];
  pack_filters(context.stream(), rounded, parameter.f32(),
               {parameter.elems() / columns, columns, 1, 1}, dtype);
  return rounded;
}

// dw += dy^T x. A model's gradients start at any multiple of four bytes, and
// such a product takes a place of its own first.
void add_weight_gradient(Context& context,
                         const Tensor& dw,
                         const ConstTensor& dy,
                         const ConstTensor& x) {
  const int64_t N = x.shape[0], D = x.shape[1], K = dw.shape[0];
  const bool is_aligned = is_gemm_aligned(dw.data);
  void* const to =
      is_aligned ? dw.data : context.scratch(dw.bytes(), kGradientScratch);
  gemm(context, to, dy.data, x.data, is_aligned ? dw.data : nullptr, nullptr,
       {.M = K,
        .N = D,
        .D = N,
        .transpose_a = Transpose::kYes,
        .transpose_b = Transpose::kNo,
        .input = x.dtype,
        .output = DType::kF32});
  if (!is_aligned)
    accumulate_filters(context.stream(), dw.f32(), to, {K, D, 1, 1},
                       DType::kF32);
}

}  // namespace

// cuBLASLt's bias has the type of y.
void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstWeight w,
                    ConstWeight b) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (is_for_kernels(x, y)) return few_outputs_forward(context, y, x, w, b);
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
                     ConstWeight w,
                     ConstTensor addend) {
  const int64_t N = x.shape[0], D = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (is_for_kernels(x, dy, dx)) {
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
  add_weight_gradient(context, dw, dy, x);
  if (db.data != nullptr)
    accumulate_bias(context, db.f32(), dy.data, dy.dtype, N, K);
}

}  // namespace syncopate::cuda
