// SPDX-License-Identifier: Apache-2.0
#include "comm/butterfly.h"

#include <bit>

#include "comm/halving.h"

namespace syncopate {

ReduceSteps butterfly_steps(int group_size, int position, int64_t elems) {
  const int core =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(group_size)));
  const int folded = group_size - core;
  const ElemRange all{0, elems};
  if (position < 2 * folded && position % 2 == 1)
    return {{{position - 1, all, {}}}, {}};
  const auto position_of = [folded](int q) {  // of a place among the core
    return q < folded ? 2 * q : q + folded;
  };
  ReduceSteps reduce;
  int place = position - folded;
  if (position < 2 * folded) {
    place = position / 2;
    reduce.steps.push_back({position + 1, {}, all});
  }
  append_halving(reduce.steps, position_of, core, place, elems);
  reduce.own = nested_chunks(elems, core, place, place + 1);
  return reduce;
}

}  // namespace syncopate
