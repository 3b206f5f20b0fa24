// Dense layers by cuBLASLt, with the bias fused into the forward product; small
// ones, and what cuBLASLt refuses, by the kernels of cuda/few_outputs.h.
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

// Returns a parameter in the product's dtype and with as many columns as the
// product wants, at an address that the library takes: itself, its copy, or one
// made here.
const void* operand(Context& context,
                    const ConstWeight& parameter,
                    DType dtype,
                    int64_t wanted_columns,
                    int scratch_index) {
  const bool is_ready = dtype == DType::kF32 && is_gemm_aligned(parameter.data);
  if (parameter.data == nullptr || is_ready) return parameter.data;
  if (dtype == DType::kBf16 && parameter.copy != nullptr &&
      parameter.copy_C == wanted_columns)
    return parameter.copy;
  const int64_t columns = parameter.shape[parameter.shape.rank() - 1];
  const FilterSize size{parameter.elems() / columns, columns, 1, 1,
                        wanted_columns};
  void* rounded =
      context.scratch(size.packed_elems() * bytes_of(dtype), scratch_index);
  pack_filters(context.stream(), rounded, parameter.f32(), size, dtype);
  return rounded;
}

// dw += dy^T x. Where the library does not take the address of dw, because a
// model's gradients start at any multiple of four bytes, or x has more columns,
// the product has a place of its own first.
void add_weight_gradient(Context& context,
                         const Tensor& dw,
                         const ConstTensor& dy,
                         const ConstTensor& x,
                         const ConstTensor& w) {
  const int64_t N = x.shape[0], P = x.shape[1];
  const FilterSize size{dw.shape[0], dw.shape[1], 1, 1, P};
  const bool is_direct = is_gemm_aligned(dw.data) && size.C == P;
  void* const to =
      is_direct ? dw.data
                : context.scratch(size.packed_elems() * bytes_of(DType::kF32),
                                  kGradientScratch);
  if (!gemm(context, to, dy.data, x.data, is_direct ? dw.data : nullptr,
            nullptr,
            {.M = size.K,
             .N = P,
             .D = N,
             .transpose_a = Transpose::kYes,
             .transpose_b = Transpose::kNo,
             .input = x.dtype,
             .output = DType::kF32}))
    few_outputs_backward(context, {}, dw, {}, dy, x, w);
  else if (!is_direct)
    accumulate_filters(context.stream(), dw.f32(), to, size, DType::kF32);
}

}  // namespace

// cuBLASLt's bias has the type of y. Where rows are not whole packs of 16 bytes
// it rounds the product to that type, too, before it adds the bias (seen on an
// H100 with cuBLASLt 13.1).
void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstWeight w,
                    ConstWeight b) {
  const int64_t N = x.shape[0], P = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (is_for_kernels(x, y)) return few_outputs_forward(context, y, x, w, b);
  const void* matrix = operand(context, w, x.dtype, P, kMatrixScratch);
  const void* bias = operand(context, b, x.dtype, K, kBiasScratch);
  if (!gemm(context, y.data, x.data, matrix, nullptr, bias,
            {.M = N,
             .N = K,
             .D = P,
             .transpose_a = Transpose::kNo,
             .transpose_b = Transpose::kYes,
             .input = x.dtype,
             .output = x.dtype}))
    few_outputs_forward(context, y, x, w, b);
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
  const int64_t N = x.shape[0], P = x.shape[1], K = w.shape[0];
  if (N == 0 || K == 0) return;
  if (is_for_kernels(x, dy, dx)) {
    few_outputs_backward(context, dx, dw, db, dy, x, w);
    if (addend.data != nullptr) cuda::add(context, dx, dx, addend);
    return;
  }
  if (dx.data != nullptr &&
      !gemm(context, dx.data, dy.data,
            operand(context, w, x.dtype, P, kMatrixScratch), addend.data,
            nullptr,
            {.M = N,
             .N = P,
             .D = K,
             .transpose_a = Transpose::kNo,
             .transpose_b = Transpose::kNo,
             .input = x.dtype,
             .output = x.dtype})) {
    few_outputs_backward(context, dx, {}, {}, dy, x, w);
    if (addend.data != nullptr) cuda::add(context, dx, dx, addend);
  }
  add_weight_gradient(context, dw, dy, x, w);
  if (db.data != nullptr)
    accumulate_bias(context, db.f32(), dy.data, dy.dtype, N, K);
}

}  // namespace syncopate::cuda
