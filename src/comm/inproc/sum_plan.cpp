// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/sum_plan.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "comm/binary_blocks.h"
#include "comm/butterfly.h"
#include "comm/ring.h"

namespace syncopate::inproc {

bool is_by_pairs(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::kButterfly ||
         algorithm == CollectiveAlgorithm::kBinaryBlocks;
}

std::vector<ExchangeStep> exchange_steps(CollectiveAlgorithm algorithm,
                                         int group_size,
                                         int position,
                                         int64_t elems) {
  const auto steps_of = algorithm == CollectiveAlgorithm::kButterfly
                            ? butterfly_steps
                            : binary_blocks_steps;
  std::vector<ExchangeStep> steps = steps_of(group_size, position, elems).steps;
  for (size_t k = steps.size(); k > 0; --k)
    steps.push_back({steps[k - 1].peer, steps[k - 1].in, steps[k - 1].out});
  return steps;
}

namespace {

int core_of(int group_size) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(group_size)));
}

// The number of members that stands for `group_size` of a butterfly.
int rounded_for_butterfly(int group_size, int classes) {
  const int core = core_of(group_size);
  const int part = std::max(1, core / classes);
  const int folded = group_size - core;
  if (folded == 0 || part == 1) return group_size;
  return core +
         std::clamp((folded + part / 2) / part * part, part, core - part);
}

// A block of members that exchange ranges of one size, and a place in it.
struct Place {
  int block = 0, size = 0, place = 0;
};

Place place_of(CollectiveAlgorithm algorithm, int group_size, int position) {
  if (algorithm == CollectiveAlgorithm::kButterfly) {
    const int core = core_of(group_size), folded = group_size - core;
    if (position >= 2 * folded) return {0, core, position - folded};
    return {position % 2, core, position / 2};
  }
  Place found{0, core_of(group_size), position};
  for (int left = group_size; found.place >= found.size; ++found.block) {
    left -= found.size;
    found.place -= found.size;
    found.size = core_of(left);
  }
  return found;
}

}  // namespace

// The plan of a group in which position p belongs to class_of[p]; classes are
// numbered in the order of their first members, which are followed.
SumPlan SumPlan::of_pairs(CollectiveAlgorithm algorithm,
                          int64_t elems,
                          std::vector<int> class_of,
                          const StandIn& stand_in) {
  const int n = static_cast<int>(class_of.size());
  std::vector<int> first;  // position
  std::vector<std::vector<ExchangeStep>> lists;
  SumPlan plan;
  for (int p = 0; p < n; ++p) {
    if (class_of[p] < std::ssize(first)) continue;
    CHECK(class_of[p] == std::ssize(first));
    first.push_back(p);
    lists.push_back(exchange_steps(algorithm, n, p, elems));
    std::vector<Step>& steps = plan.steps_.emplace_back();
    for (const ExchangeStep& step : lists.back())
      steps.push_back({.out = step.out.elems, .in = step.in.elems});
  }
  // Whose step it is that sends what a followed member receives.
  for (int to = 0; to < plan.num_classes(); ++to) {
    const std::vector<ExchangeStep>& own = lists[to];
    int num_inside = 0;  // exchanges inside the class that are larger
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k].in.elems == 0) continue;
      const bool is_first_half = k < own.size() / 2;
      const int peer = own[k].peer;
      int from = class_of[peer];
      const bool is_inside = from == to;
      if (is_inside)
        from = stand_in(to, is_first_half ? num_inside++ : --num_inside);
      // The peer's or, if that is not followed, the same step of the member
      // that is.
      const std::vector<ExchangeStep> others =
          is_inside || first[from] == peer
              ? lists[from]
              : exchange_steps(algorithm, n, peer, elems);
      const auto half = static_cast<ptrdiff_t>(others.size()) / 2;
      const auto begin = others.begin() + (is_first_half ? 0 : half);
      const auto sends =
          std::find_if(begin, begin + half, [&](const ExchangeStep& step) {
            return is_inside ? class_of[step.peer] == from &&
                                   step.out.elems == own[k].in.elems
                             : step.peer == first[to];
          });
      CHECK(sends != begin + half);
      Step& step = plan.steps_[from][sends - others.begin()];
      CHECK(step.out == own[k].in.elems);
      step.to.push_back({to, static_cast<int>(k)});
    }
  }
  plan.class_of_ = std::move(class_of);
  return plan;
}

SumPlan SumPlan::of_classes(CollectiveAlgorithm algorithm,
                            int group_size,
                            int64_t elems,
                            int classes) {
  CHECK(std::has_single_bit(static_cast<unsigned>(classes)) && classes >= 4);
  const int planned = algorithm == CollectiveAlgorithm::kButterfly
                          ? rounded_for_butterfly(group_size, classes)
                          : group_size;
  struct Digits {
    int block, value;
    auto operator<=>(const Digits&) const = default;
  };
  std::map<Digits, int> numbers;
  std::vector<Digits> digits_of;  // by class
  std::vector<int> class_of;
  for (int p = 0; p < planned; ++p) {
    const auto [block, size, place] = place_of(algorithm, planned, p);
    const Digits digits{block, place / std::max(1, size / classes)};
    const auto [found, is_new] =
        numbers.try_emplace(digits, static_cast<int>(numbers.size()));
    if (is_new) digits_of.push_back(digits);
    class_of.push_back(found->second);
  }
  // A near class, most likely folded if this one is.
  const auto stand_in = [&](int member_class, int exchange) {
    const auto [block, value] = digits_of[member_class];
    const int bits = std::countr_zero(static_cast<unsigned>(classes));
    return numbers.at({block, value ^ (1 << exchange % bits)});
  };
  // Equal parts of as many elements as the largest block has members.
  const int64_t units = core_of(planned);
  SumPlan plan = of_pairs(algorithm, units, class_of, stand_in);
  const auto scaled = [&](int64_t parts) {
    return elems / units * parts + (elems % units * parts + units - 1) / units;
  };
  for (std::vector<Step>& steps : plan.steps_)
    for (Step& step : steps) {
      step.out = scaled(step.out);
      step.in = scaled(step.in);
    }
  plan.class_of_.clear();
  for (int64_t p = 0; p < group_size; ++p)
    plan.class_of_.push_back(class_of[p * planned / group_size]);
  return plan;
}

std::vector<Time> SumPlan::entered_at(std::span<const Time> by_position) const {
  CHECK(by_position.size() == class_of_.size());
  std::vector<Time> entered(num_classes(), -kNever);
  for (size_t p = 0; p < by_position.size(); ++p)
    if (Time& at = entered[class_of_[p]]; at == -kNever) at = by_position[p];
  const auto last = std::ranges::max_element(by_position);
  entered[class_of_[last - by_position.begin()]] = *last;
  return entered;
}

SumPlan SumPlan::of_ring(int group_size, int64_t elems, int classes) {
  const RingLayout layout(group_size, elems);
  const int64_t chunk = (elems + group_size - 1) / group_size;
  SumPlan plan;
  plan.class_of_.assign(group_size, 0);
  if (classes == kEveryMember)
    std::iota(plan.class_of_.begin(), plan.class_of_.end(), 0);
  const int followed = plan.class_of_.back() + 1;
  using Phase = RingLayout::Phase;
  for (int c = 0; c < followed; ++c) {
    std::vector<Step>& steps = plan.steps_.emplace_back();
    for (const Phase phase : {Phase::kReduceScatter, Phase::kAllGather}) {
      Step& step = steps.emplace_back();
      step.out = step.in = chunk;
      step.chunks = group_size - 1;
      step.ahead = layout.ahead();
      for (int64_t i = 0; elems % group_size > 0 && i < layout.messages(); ++i)
        step.sizes.push_back(layout.sent(phase, c, i).elems);
      step.to.push_back({(c + 1) % followed, static_cast<int>(phase)});
    }
  }
  return plan;
}

SumPlan SumPlan::make(CollectiveAlgorithm algorithm,
                      int group_size,
                      int64_t elems,
                      int classes) {
  if (!is_by_pairs(algorithm)) return of_ring(group_size, elems, classes);
  if (classes != kEveryMember)
    return of_classes(algorithm, group_size, elems, classes);
  std::vector<int> class_of(group_size);
  std::iota(class_of.begin(), class_of.end(), 0);
  return of_pairs(algorithm, elems, std::move(class_of), nullptr);
}

}  // namespace syncopate::inproc
