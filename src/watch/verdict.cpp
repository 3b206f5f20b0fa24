#include "watch/verdict.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/core.h>

namespace syncopate {

double limit_s(const WatchLimits& limits, Stage stage, double median_step_s) {
  constexpr double kLeastS = 30, kMedians = 10;
  if (!limits.judges_hangs) return std::numeric_limits<double>::infinity();
  if (stage != Stage::kStep && stage != Stage::kCollective)
    return limits.io_timeout_s;
  if (limits.step_timeout_s > 0) return limits.step_timeout_s;
  if (median_step_s <= 0) return std::max(kLeastS, limits.io_timeout_s);
  return std::max(kLeastS, kMedians * median_step_s);
}

std::optional<Hang> judge_hang(std::span<const std::optional<State>> states,
                               double limit_s) {
  const auto all = [&](const auto& holds) {
    return std::all_of(states.begin(), states.end(), holds);
  };
  if (!all([](const auto& state) { return state.has_value(); }))
    return std::nullopt;
  // Finds the rank furthest behind: by step, then by time at that step.
  const auto last_of = [&](const auto& is_candidate, auto age_s) {
    int last = -1;
    for (int rank = 0; rank < std::ssize(states); ++rank) {
      if (!is_candidate(*states[rank])) continue;
      if (last < 0 ||
          std::make_tuple(states[rank]->step, -age_s(*states[rank])) <
              std::make_tuple(states[last]->step, -age_s(*states[last])))
        last = rank;
    }
    return last;
  };
  const int stuck = last_of(
      [](const State& state) {
        return !state.is_waiting && state.idle_s > state.limit_s;
      },
      [](const State& state) { return state.idle_s; });
  if (stuck >= 0) return Hang{stuck, false};
  if (!all([&](const auto& state) {
        return state->is_waiting && state->still_s > limit_s;
      }))
    return std::nullopt;
  return Hang{last_of([](const State&) { return true; },
                      [](const State& state) { return state.still_s; }),
              true};
}

std::string name_of_rank(int rank, const RankCard& card) {
  return fmt::format("rank {} (host {}, pid {})", rank, card.host.data(),
                     card.pid);
}

std::string place_of(const State& state) {
  return fmt::format(" at step {}, stage {}, last operation \"{}\"", state.step,
                     name_of(state.stage), state.operation.data());
}

}  // namespace syncopate
