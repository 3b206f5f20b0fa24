#include "config/goal.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace syncopate {
namespace {

bool is_metric_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

bool Goal::is_reached_by(double result) const {
  return relation == Relation::kAtLeast ? result >= value : result <= value;
}

std::string Goal::text() const {
  return fmt::format("{} {} {}", metric,
                     relation == Relation::kAtLeast ? ">=" : "<=", value);
}

std::optional<Goal> parse_goal(std::string_view text) {
  const size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos || text.substr(at + 1, 1) != "=")
    return std::nullopt;
  const std::string_view metric = trim(text.substr(0, at));
  const std::optional<double> value = parse_double(trim(text.substr(at + 2)));
  if (!is_metric_name(metric) || !value) return std::nullopt;
  return Goal{
      std::string(metric),
      text[at] == '>' ? Goal::Relation::kAtLeast : Goal::Relation::kAtMost,
      *value + 0.0};  // -0 becomes 0
}

}  // namespace syncopate
