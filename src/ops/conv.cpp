#include "ops/conv.h"

#include "ops/bodies.h"
#include "ops/elementwise.h"
#include "ops/library.h"

namespace syncopate {

namespace {

// Whether x has channels of zeros behind those of the convolution.
bool is_padded(const Context& context,
               const ConstTensor& x,
               const ConvSize& s) {
  return context.device().kind() != DeviceKind::kCpu &&
         x.dtype == DType::kBf16 && x.layout == Layout::kNhwc &&
         x.shape == Shape({s.N, padded_channels(s.C), s.H, s.W});
}

// Checks that the tensors of a call match its sizes.
void check_shapes(const ConstTensor& x,
                  const ConstTensor& y,
                  const ConstTensor& w,
                  const ConvSize& s,
                  bool is_padded) {
  CHECK_MSG(s.P() > 0 && s.Q() > 0, "image {}x{} smaller than filter {}x{}",
            s.H, s.W, s.R, s.S);
  CHECK_MSG(is_padded || (x.shape == Shape{s.N, s.C, s.H, s.W}), "x is {}",
            x.shape.text());
  CHECK_MSG((y.shape == Shape{s.N, s.K, s.P(), s.Q()}), "y is {}",
            y.shape.text());
  CHECK_MSG((w.shape == Shape{s.K, s.C, s.R, s.S}), "w is {}", w.shape.text());
  CHECK(w.dtype == DType::kF32);
}

}  // namespace

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstWeight w,
                  const ConvSize& size) {
  check_shapes(x, y, w, size, is_padded(context, x, size));
  bodies_of(context).conv_forward(context, y, x, w, size);
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstWeight w,
                        const ConvSize& size) {
  check_shapes(dx, dy, w, size, false);
  bodies_of(context).conv_backward_data(context, dx, dy, w, size);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  check_shapes(x, dy, dw, size, is_padded(context, x, size));
  bodies_of(context).conv_backward_weights(context, dw, x, dy, size);
}

Layout preferred_layout(const Device& device, DType dtype, int64_t C) {
  const bool has_tiles = dtype == DType::kBf16 && cpu_has_bf16_tiles();
  const bool is_blocked = device.kind() == DeviceKind::kCpu && C % 16 == 0 &&
                          cpu_has_blocks_of_16() && !has_tiles;
  return is_blocked ? Layout::kNchw16c : Layout::kNhwc;
}

}  // namespace syncopate
