#include "ops/gather_clicks.h"

#include "ops/bodies.h"

namespace syncopate {

void gather_clicks(Context& context,
                   Tensor rows,
                   Tensor labels,
                   ConstTensor table,
                   ConstTensor clicked,
                   ConstTensor samples) {
  CHECK(rows.shape.rank() == 2 && rows.dtype == DType::kI32);
  CHECK(table.shape.rank() == 2 && table.dtype == DType::kI32 &&
        table.shape[1] == rows.shape[1]);
  CHECK(clicked.dtype == DType::kU8 && clicked.elems() == table.shape[0]);
  for (const ConstTensor& list : {ConstTensor(labels), samples})
    CHECK(list.dtype == DType::kI32 && list.elems() == rows.shape[0]);
  bodies_of(context).gather_clicks(context, rows, labels, table, clicked,
                                   samples);
}

}  // namespace syncopate
