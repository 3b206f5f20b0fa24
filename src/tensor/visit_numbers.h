// Visits state that consists of single numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/state_visitor.h"

namespace syncopate {

// `Number`: float, int64_t or double.
template <typename Number>
void visit_number(StateVisitor& visitor,
                  Owner owner,
                  std::string_view name,
                  Number& number) {
  visitor.visit(owner, name, std::span<Number>(&number, 1));
}

// Visits numbers that are stored in several places as one range.
inline void visit_together(StateVisitor& visitor,
                           Owner owner,
                           std::string_view name,
                           std::initializer_list<double*> numbers) {
  std::vector<double> values;
  for (const double* number : numbers) values.push_back(*number);
  visitor.visit(owner, name, std::span<double>(values));
  for (size_t i = 0; i < values.size(); ++i) *numbers.begin()[i] = values[i];
}

// Visits numbers by worker, of which an empty list stands for zeros: N workers
// of a process do not hold N * N zeros.
template <typename Number>
void visit_by_worker(StateVisitor& visitor,
                     Owner owner,
                     std::string_view name,
                     std::vector<Number>& values,
                     size_t workers) {
  std::vector<Number> all = values;
  all.resize(workers);
  visitor.visit(owner, name, std::span<Number>(all));
  const bool has_any =
      std::ranges::any_of(all, [](Number v) { return v != 0; });
  if (has_any || !values.empty()) values = std::move(all);
}

}  // namespace syncopate
