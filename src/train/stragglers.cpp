#include "train/stragglers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

#include "base/rng.h"
#include "base/shared_table.h"

namespace syncopate {

Stragglers::Stragglers(const Options& options,
                       int rank,
                       int workers,
                       const RecordedDurations* trace)
    : options_(options.stragglers),
      seed_(static_cast<uint64_t>(options.run.seed)),
      rank_(rank),
      durations_(options, rank, trace),
      factor_(of_worker(options.stragglers.factor, rank, 1)),
      is_delayed_(std::ranges::count(options.stragglers.delay_workers, rank) >
                  0),
      episodes_(shared_table<Episodes>(
          std::tuple(options.stragglers.episodes, workers, seed_),
          [&] {
            return Episodes(options.stragglers.episodes, workers, seed_);
          })) {
  options_.factor = options_.delay_workers = {};
  options_.episodes = {};
}

double Stragglers::delays_s(int64_t step) const {
  double delay_s = 0;
  if (is_delayed_ && step >= options_.delay_from &&
      (options_.delay_until == 0 || step < options_.delay_until))
    delay_s += 1e-3 * options_.delay_ms;
  if (options_.random == DelayLaw::kNone) return delay_s;
  Rng rng(seed_, Purpose::kStraggler, static_cast<uint64_t>(rank_),
          static_cast<uint64_t>(step));
  if (rng.uniform() >= options_.random_share) return delay_s;
  const double mean_s = 1e-3 * options_.random_ms;
  const double u = rng.uniform();
  if (options_.random == DelayLaw::kUniform) return delay_s + 2 * mean_s * u;
  if (options_.random == DelayLaw::kExponential)
    return delay_s - mean_s * std::log1p(-u);
  // Pareto with exponent 2: at least half the mean, with a heavy tail.
  return delay_s + 0.5 * mean_s / std::sqrt(1 - u);
}

Episodes::Effect Stragglers::episodes_at(int64_t step, Time now) const {
  return episodes_->at(Episode::Kind::kCompute, rank_, now, step);
}

double Stragglers::virtual_s(int64_t step, Time now) const {
  const Episodes::Effect episodes = episodes_at(step, now);
  return durations_.seconds(step) * factor_ * episodes.times + delays_s(step) +
         episodes.added_s;
}

void Stragglers::sleep(int64_t step, Time now, double computed_s) const {
  const Episodes::Effect episodes = episodes_at(step, now);
  const double seconds = (factor_ * episodes.times - 1) * computed_s +
                         delays_s(step) + episodes.added_s;
  if (seconds > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace syncopate
