// Convolutions by cuDNN on NHWC activations. Each call converts the filters to
// KRSC order and the activations' dtype; the gradient of the filters is
// computed in that dtype (cuDNN has no engine that takes bf16 and returns fp32)
// and added to the fp32 one. cuDNN itself pads odd channel counts if tensor
// cores need it.
#include "cuda/filters.h"
#include "library/convolve.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

constexpr int kFilterScratch = 0;

FilterSize filters_of(const ConvSize& size) {
  return {size.K, size.C, size.R, size.S};
}

void* filter_scratch(Context& context, const ConvSize& size, DType dtype) {
  return context.scratch(filters_of(size).elems() * bytes_of(dtype),
                         kFilterScratch);
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
                  ConstTensor w,
                  const ConvSize& size) {
  void* krsc = filter_scratch(context, size, x.dtype);
  pack_filters(context.stream(), krsc, w.f32(), filters_of(size), x.dtype);
  convolve(context, ConvPass::kForward, x, krsc, y, size);
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstTensor w,
                        const ConvSize& size) {
  void* krsc = filter_scratch(context, size, dy.dtype);
  pack_filters(context.stream(), krsc, w.f32(), filters_of(size), dy.dtype);
  convolve(context, ConvPass::kBackwardData, dx, krsc, dy, size);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  void* krsc = filter_scratch(context, size, x.dtype);
  convolve(context, ConvPass::kBackwardWeights, x, krsc, dy, size);
  accumulate_filters(context.stream(), dw.f32(), krsc, filters_of(size),
                     x.dtype);
}

}  // namespace syncopate::cuda
