#include "sync/phases.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

bool is_whole(double value) {
  return value == std::floor(value);
}

void check_order(const std::vector<std::string>& phases) {
  std::vector<std::string> known;
  for (const SchemeInfo& info : scheme_table())
    if (!info.is_composite) known.push_back(info.keyword);
  if (phases.empty())
    fail(ExitCode::kBadInput,
         "sync_switch.order: empty, expected the schemes of the phases, as "
         "bsp, asp or 10");
  for (const std::string& phase : phases)
    if (std::ranges::count(known, phase) == 0)
      fail(ExitCode::kBadInput,
           "sync_switch.order: {}, expected 1 (bsp), 0 (asp) or "
           "of {}",
           phase, join(known, ", "));
}

// The last phase may have no work: another one throughout, as 100% of bsp.
bool is_last_empty(const SyncSwitchOptions& options) {
  const std::vector<double>& fractions = options.fractions;
  const std::vector<double>& steps = options.train_steps;
  return (!fractions.empty() && fractions.back() == 0) ||
         (steps.size() > 1 && steps.back() == steps[steps.size() - 2]);
}

void check_fractions(const SyncSwitchOptions& options,
                     size_t phases,
                     int workers,
                     int64_t total_steps) {
  const std::vector<double>& fractions = options.fractions;
  if (fractions.size() != phases)
    fail(ExitCode::kBadInput,
         "sync_switch.fractions: {} of them, expected {}, one per "
         "phase of sync_switch.order",
         fractions.size(), phases);
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  // Rounding error of a few additions of decimal fractions.
  if (std::abs(sum - 1) > 1e-9)
    fail(ExitCode::kBadInput,
         "sync_switch.fractions: their sum is {}, expected 1", sum);
  const auto lengths = phase_lengths(options, workers, total_steps);
  for (size_t i = 0; i < phases; ++i)
    if (lengths[i] <= 0 && !(i + 1 == phases && is_last_empty(options)))
      fail(ExitCode::kBadInput,
           "sync_switch.fractions: {} of {} steps leaves a phase "
           "without a step, expected at least one per phase",
           fractions[i], total_steps);
}

void check_train_steps(const SyncSwitchOptions& options,
                       const std::vector<std::string>& phases,
                       int workers,
                       int64_t total_steps) {
  const std::vector<double>& steps = options.train_steps;
  if (steps.size() != phases.size())
    fail(ExitCode::kBadInput,
         "sync_switch.train_steps: {} of them, expected {}, one "
         "per phase of sync_switch.order",
         steps.size(), phases.size());
  double before = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool may_be_empty = i > 0 && i + 1 == steps.size();
    if (!is_whole(steps[i]) || steps[i] < before ||
        (steps[i] == before && !may_be_empty))
      fail(ExitCode::kBadInput,
           "sync_switch.train_steps: {} after {}, expected whole "
           "numbers that increase",
           steps[i], before);
    before = steps[i];
  }
  const auto lengths = phase_lengths(options, workers, total_steps);
  const int64_t total = workers * total_steps;
  const int64_t sum =
      std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (sum == total) return;
  const int64_t per_step = steps_together(phases.back()) ? workers : 1;
  const int64_t missing = total - (sum - lengths.back());
  std::string fits;
  if (missing > 0 && missing % per_step == 0)
    fits = fmt::format(" (the last one {} would fit)",
                       static_cast<int64_t>(steps.back()) +
                           (missing - lengths.back()) / per_step);
  fail(ExitCode::kBadInput,
       "sync_switch.train_steps: {} mini-batches, expected the "
       "run's {} = {} workers * {} steps{}",
       sum, total, workers, total_steps, fits);
}

void check_policy(const SyncSwitchOptions& options,
                  const std::vector<std::string>& phases) {
  if (options.policy == SwitchPolicy::kFixed) return;
  const auto bsp = std::find(phases.begin(), phases.end(), "bsp");
  if (bsp == phases.end())
    fail(ExitCode::kBadInput,
         "sync_switch.policy: {} without a bsp phase, in which "
         "it acts, expected fixed",
         options.policy);
  const auto end = phases.end() - (is_last_empty(options) ? 1 : 0);
  if (options.policy == SwitchPolicy::kGreedy &&
      std::find(bsp, end, "asp") == end)
    fail(ExitCode::kBadInput,
         "sync_switch.policy: greedy without an asp phase after the bsp "
         "phase, expected elastic or fixed");
  if (options.policy == SwitchPolicy::kGreedy && options.fractions.empty() &&
      options.train_steps.empty())
    fail(ExitCode::kBadInput,
         "sync_switch.policy: greedy takes an episode's work from the asp "
         "phase, whose length is unknown before a plateau, expected "
         "elastic, fixed or sync_switch.fractions");
}

bool leaves_averages(const std::vector<std::string>& phases) {
  for (size_t i = 1; i < phases.size(); ++i)
    if (scheme_info(phases[i - 1]).averages_gradients &&
        !scheme_info(phases[i]).averages_gradients)
      return true;
  return false;
}

}  // namespace

bool steps_together(const std::string& scheme) {
  return !scheme_info(scheme).is_free_running;
}

std::vector<int64_t> phase_lengths(const SyncSwitchOptions& options,
                                   int workers,
                                   int64_t total_steps) {
  const std::vector<std::string> phases = phase_schemes(options);
  std::vector<int64_t> lengths;
  if (!options.train_steps.empty()) {
    double before = 0;
    for (size_t i = 0; i < phases.size(); ++i) {
      const int64_t steps = std::llround(options.train_steps[i] - before);
      lengths.push_back(steps_together(phases[i]) ? steps * workers : steps);
      before = options.train_steps[i];
    }
    return lengths;
  }
  if (options.fractions.empty()) {  // a single phase, or one until a plateau
    lengths.assign(phases.size(), 0);
    lengths[0] = workers * total_steps;
    return lengths;
  }
  double share = 0;
  int64_t before = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    share += options.fractions[i];
    const int64_t end =
        i + 1 == phases.size()
            ? total_steps
            : std::llround(share * static_cast<double>(total_steps));
    lengths.push_back((end - before) * workers);
    before = end;
  }
  return lengths;
}

void check_phases(const SyncSwitchOptions& options,
                  int workers,
                  int64_t total_steps) {
  const std::vector<std::string> phases = phase_schemes(options);
  check_order(phases);
  const bool has_steps = !options.train_steps.empty();
  if (has_steps && !options.fractions.empty())
    fail(ExitCode::kBadInput,
         "sync_switch.train_steps: given together with "
         "sync_switch.fractions, expected one of the two");
  if (has_steps)
    check_train_steps(options, phases, workers, total_steps);
  else if ((phases.size() > 1 && options.plateau == Plateau::kNone) ||
           !options.fractions.empty())
    check_fractions(options, phases.size(), workers, total_steps);
  if (options.plateau != Plateau::kNone && phases.size() == 1)
    fail(ExitCode::kBadInput,
         "sync_switch.plateau: {} with a single phase, expected none or a "
         "phase to switch to",
         options.plateau);
  if ((options.momentum_rule == MomentumRule::kRampLinear ||
       options.momentum_rule == MomentumRule::kRampDoubling) &&
      options.momentum_ramp.value <= 0)
    fail(ExitCode::kBadInput,
         "sync_switch.momentum_ramp: 0 for sync_switch.momentum_rule = {}, "
         "expected the length of the ramp, as 2400 steps",
         options.momentum_rule);
  if (options.momentum_rule != MomentumRule::kKeep &&
      !leaves_averages(phases) && options.policy != SwitchPolicy::kGreedy)
    fail(ExitCode::kBadInput,
         "sync_switch.momentum_rule: {}, but no phase that averages gradients "
         "is followed by one that does not, expected keep",
         options.momentum_rule);
  check_policy(options, phases);
}

double rate_factor(LrRule rule, int averaged, int workers) {
  if (rule == LrRule::kNone) return 1;
  if (averaged > 0) return averaged;
  return rule == LrRule::kT2t ? 1 / std::sqrt(workers) : 1;
}

double momentum_factor(MomentumRule rule,
                       int workers,
                       double steps,
                       double ramp_steps) {
  if (rule == MomentumRule::kZero) return 0;
  if (rule == MomentumRule::kKeep || workers == 1) return 1;
  if (rule == MomentumRule::kScaled) return 1.0 / workers;
  if (steps >= ramp_steps) return 1;
  const bool doubles = rule == MomentumRule::kRampDoubling;
  const double stages = doubles ? std::ceil(std::log2(workers)) : workers - 1.0;
  const double stage = std::floor(steps / ramp_steps * stages);
  return (doubles ? std::exp2(stage) : stage + 1) / workers;
}

}  // namespace syncopate
