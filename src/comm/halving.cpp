// SPDX-License-Identifier: Apache-2.0
#include "comm/halving.h"

namespace syncopate {

ElemRange nested_chunks(int64_t elems, int n, int first, int last) {
  // floor(elems c / n) without overflow in the product
  const auto begin = [&](int c) { return elems / n * c + elems % n * c / n; };
  return {begin(first), begin(last) - begin(first)};
}

void append_halving(std::vector<ExchangeStep>& steps,
                    const std::function<int(int)>& position_of,
                    int n,
                    int place,
                    int64_t elems) {
  int low = 0;  // holds chunks [low, low + 2 distance)
  for (int distance = n / 2; distance > 0; distance /= 2) {
    const int middle = low + distance;
    const ElemRange lower = nested_chunks(elems, n, low, middle);
    const ElemRange upper = nested_chunks(elems, n, middle, middle + distance);
    const int peer = position_of(place ^ distance);
    if ((place & distance) == 0) {
      steps.push_back({peer, upper, lower});
    } else {
      steps.push_back({peer, lower, upper});
      low = middle;
    }
  }
}

}  // namespace syncopate
