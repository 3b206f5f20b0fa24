// SPDX-License-Identifier: Apache-2.0
#include "comm/binary_blocks.h"

#include <bit>

#include "comm/halving.h"

namespace syncopate {
namespace {

struct Block {
  int first, size;  // positions
};

int largest_block(int positions) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(positions)));
}

}  // namespace

ReduceSteps binary_blocks_steps(int group_size, int position, int64_t elems) {
  Block larger{0, 0};
  Block block{0, largest_block(group_size)};
  while (position >= block.first + block.size) {
    larger = block;
    block.first += block.size;
    block.size = largest_block(group_size - block.first);
  }
  const int place = position - block.first;
  ReduceSteps reduce;

  append_halving(
      reduce.steps, [&](int q) { return block.first + q; }, block.size, place,
      elems);
  const ElemRange own = nested_chunks(elems, block.size, place, place + 1);

  const int behind = block.first + block.size;
  if (behind < group_size) {
    const int share = block.size / largest_block(group_size - behind);
    reduce.steps.push_back({behind + place / share, {}, own});
  }
  if (larger.size == 0) {
    reduce.own = own;
    return reduce;
  }
  const int parts = larger.size / block.size;
  for (int part = place * parts; part < (place + 1) * parts; ++part)
    reduce.steps.push_back({larger.first + part,
                            nested_chunks(elems, larger.size, part, part + 1),
                            {}});
  return reduce;
}

}  // namespace syncopate
