// The grammar of run.target: the result of an evaluation at which a run ends.
//
//   METRIC >= NUMBER   or   METRIC <= NUMBER
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace syncopate {

struct Goal {
  enum class Relation : uint8_t { kAtLeast, kAtMost };
  std::string metric;  // "accuracy"; which ones there are, the data decide
  Relation relation = Relation::kAtLeast;
  double value = 0;

  // NaN reaches no target.
  bool is_reached_by(double result) const;
  std::string text() const;  // "accuracy >= 0.9", one text for equal targets
};

// Returns nullopt if `text` is not a target.
std::optional<Goal> parse_goal(std::string_view text);

}  // namespace syncopate
