#include "ops/matmul.h"

#include "ops/bodies.h"

namespace syncopate {

// x (N, P), y (N, K), w (K, D)
static void check_shapes(const Context& context,
                         const ConstTensor& x,
                         const ConstTensor& y,
                         const ConstTensor& w) {
  CHECK(x.dtype == y.dtype && w.dtype == DType::kF32);
  CHECK(x.shape.rank() == 2 && y.shape.rank() == 2 && w.shape.rank() == 2);
  const bool may_be_wider =
      context.device().kind() == DeviceKind::kCuda && x.dtype == DType::kBf16;
  CHECK_MSG(x.shape[0] == y.shape[0] && y.shape[1] == w.shape[0] &&
                (x.shape[1] == w.shape[1] ||
                 (may_be_wider && x.shape[1] > w.shape[1])),
            "x {}, y {}, w {}", x.shape.text(), y.shape.text(), w.shape.text());
}

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstWeight w,
                    ConstWeight b) {
  check_shapes(context, x, y, w);
  CHECK(b.data == nullptr ||
        (b.elems() == y.shape[1] && b.dtype == DType::kF32));
  bodies_of(context).linear_forward(context, y, x, w, b);
}

void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstWeight w,
                     ConstTensor addend) {
  check_shapes(context, x, dy, w);
  CHECK(dx.data == nullptr || (dx.shape == x.shape && dx.dtype == x.dtype));
  CHECK(dw.shape == w.shape && dw.dtype == DType::kF32);
  CHECK(db.data == nullptr ||
        (db.elems() == dy.shape[1] && db.dtype == DType::kF32));
  CHECK(addend.data == nullptr ||
        (dx.data != nullptr && addend.data != dx.data &&
         addend.shape == dx.shape && addend.dtype == dx.dtype));
  bodies_of(context).linear_backward(context, dx, dw, db, dy, x, w, addend);
}

}  // namespace syncopate
