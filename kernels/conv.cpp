// Convolutions by cuDNN on NHWC activations. Unless there is a copy of the
// filters in KRSC order and the activations' dtype, a call makes one; the
// gradient of the filters is computed in that dtype (cuDNN has no engine that
// takes bf16 and returns fp32) and added to the fp32 one. cuDNN itself pads odd
// channel counts if tensor cores need it.
#include "cuda/filters.h"
#include "library/convolve.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

constexpr int kFilterScratch = 0;

// As many channels as x has, whose last ones may be zeros without filters.
ConvSize size_with(const ConstTensor& x, ConvSize size) {
  size.C = x.shape[1];
  return size;
}
FilterSize filters_of(const ConstTensor& x, const ConvSize& size) {
  return {size.K, size.C, size.R, size.S, x.shape[1]};
}

void* filter_scratch(Context& context, const FilterSize& size, DType dtype) {
  return context.scratch(size.packed_elems() * bytes_of(dtype), kFilterScratch);
}

const void* packed(Context& context,
                   const ConstWeight& w,
                   const FilterSize& size,
                   DType dtype) {
  if (dtype == DType::kBf16 && w.copy != nullptr && w.copy_C == size.packed_C)
    return w.copy;
  void* krsc = filter_scratch(context, size, dtype);
  pack_filters(context.stream(), krsc, w.f32(), size, dtype);
  return krsc;
}

}  // namespace

const char* name_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return "conv_forward";
    case ConvPass::kBackwardData:
      return "conv_backward_data";
    case ConvPass::kBackwardWeights:
      return "conv_backward_weights";
  }
  CHECK(false);
}

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstWeight w,
                  const ConvSize& size) {
  const void* krsc = packed(context, w, filters_of(x, size), x.dtype);
  convolve(context, ConvPass::kForward, x, krsc, y, size_with(x, size));
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstWeight w,
                        const ConvSize& size) {
  const void* krsc = packed(context, w, filters_of(dx, size), dy.dtype);
  convolve(context, ConvPass::kBackwardData, dx, krsc, dy, size);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  const FilterSize filters = filters_of(x, size);
  void* krsc = filter_scratch(context, filters, x.dtype);
  convolve(context, ConvPass::kBackwardWeights, x, krsc, dy,
           size_with(x, size));
  accumulate_filters(context.stream(), dw.f32(), krsc, filters, x.dtype);
}

}  // namespace syncopate::cuda
