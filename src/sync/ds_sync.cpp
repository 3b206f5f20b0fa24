#include "sync/ds_sync.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/shared_table.h"
#include "keys/key.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

// Groups ranks by equal `group_of(rank)`.
Partition partition_by(int workers,
                       int num_groups,
                       const std::function<int(int)>& group_of) {
  Partition groups(num_groups);
  for (int rank = 0; rank < workers; ++rank)
    groups[group_of(rank)].push_back(rank);
  return groups;
}

std::vector<Partition> by_grid(int k) {
  return {partition_by(k * k, k, [=](int r) { return r / k; }),
          partition_by(k * k, k, [=](int r) { return (r / k + r % k) % k; })};
}

std::vector<Partition> by_digits(int workers, const std::vector<int>& radices) {
  std::vector<Partition> phases;
  int stride = 1;  // between ranks that differ by one in the phase's digit
  for (const int radix : radices) {
    phases.push_back(partition_by(workers, workers / radix, [=](int r) {
      return r / (stride * radix) * stride + r % stride;
    }));
    stride *= radix;
  }
  return phases;
}

std::vector<Partition> by_shifts(int workers, int g) {
  std::vector<Partition> phases;
  for (int p = 0; p < g; ++p)
    phases.push_back(partition_by(
        workers, workers / g, [=](int r) { return (r + p) % workers / g; }));
  return phases;
}

std::vector<int> prime_factors(int n) {
  if (n == 1) return {1};
  std::vector<int> factors;
  for (int factor = 2; n > 1; ++factor)
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
  return factors;
}

std::vector<int> checked_radices(const std::vector<double>& given,
                                 int workers) {
  std::vector<int> radices;
  double product = 1;
  for (const double radix : given) {
    product *= radix;
    if (radix >= 2 && radix <= workers && radix == std::floor(radix))
      radices.push_back(static_cast<int>(radix));
  }
  if (radices.size() != given.size() || product != workers)
    fail(ExitCode::kBadInput,
         "ds_sync.radices: do not make {} workers, expected whole numbers of "
         "2 or more whose product is the number of workers",
         workers);
  return radices;
}

}  // namespace

std::vector<Partition> ds_sync_phases(const DsSyncOptions& options,
                                      int workers) {
  if (options.group != 0) {
    if (!options.radices.empty())
      fail(ExitCode::kBadInput,
           "ds_sync.group: {}, given together with ds_sync.radices, expected "
           "one of them",
           options.group);
    if (options.group < 2 || workers % options.group != 0)
      fail(ExitCode::kBadInput,
           "ds_sync.group: {} of {} workers, expected a divisor of their "
           "number, 2 or more",
           options.group, workers);
    // A single group of all is the same in every phase.
    if (options.group < workers)
      return by_shifts(workers, static_cast<int>(options.group));
    return by_digits(workers, {workers});
  }
  if (!options.radices.empty())
    return by_digits(workers, checked_radices(options.radices, workers));
  const int k = static_cast<int>(std::lround(std::sqrt(workers)));
  if (k > 1 && k * k == workers) return by_grid(k);
  return by_digits(workers, prime_factors(workers));
}

int64_t ds_sync_phase(const DsSyncOptions& options,
                      int64_t step,
                      double steps_per_epoch,
                      int64_t num_phases) {
  if (options.restart == PhaseRestart::kNever) return step % num_phases;
  // An epoch may end within a step: the next one starts with the next whole
  // step.
  constexpr double kRounding = 1e-9;
  const double epoch =
      std::floor(static_cast<double>(step) / steps_per_epoch + kRounding);
  const auto first =
      static_cast<int64_t>(std::ceil(epoch * steps_per_epoch - kRounding));
  return std::max<int64_t>(0, step - first) % num_phases;
}

namespace {

struct PhaseOfGroups {
  std::vector<Ranks> groups;  // each ascending
  std::vector<int> group_of;  // by rank: its place in `groups`
};

std::vector<PhaseOfGroups> make_phases(const DsSyncOptions& options,
                                       int workers) {
  std::vector<PhaseOfGroups> phases;
  for (const Partition& partition : ds_sync_phases(options, workers)) {
    PhaseOfGroups& phase = phases.emplace_back();
    phase.group_of.resize(workers);
    for (const std::vector<int>& members : partition) {
      for (const int rank : members)
        phase.group_of[rank] = static_cast<int>(phase.groups.size());
      phase.groups.emplace_back(members);
    }
  }
  return phases;
}

class DsSync final : public SchemeBase {
 public:
  explicit DsSync(const SchemeParts& parts);
  void begin_step(const StepPlan& plan) override;
  void update(const StepPlan& plan) override { step_locally(plan); }
  void end_step(const StepPlan& plan) override;
  void finish(RunEnd end) override;

 private:
  void average_over(const Group& group);
  Group group_of(const StepPlan& plan) const;  // this worker's

  DsSyncOptions options_;
  std::shared_ptr<const std::vector<PhaseOfGroups>> phases_;  // of the process
};

DsSync::DsSync(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, kLoosePeriod), {}),
      options_(parts.sync.ds_sync),
      phases_(shared_table<std::vector<PhaseOfGroups>>(
          std::tuple(options_.radices, options_.group, size()),
          [this] { return make_phases(options_, size()); })) {
  for (const PhaseOfGroups& phase : *phases_) reducer_->prepare(phase.groups);
}

Group DsSync::group_of(const StepPlan& plan) const {
  const PhaseOfGroups& phase = (*phases_)[ds_sync_phase(
      options_, plan.worker_steps / parts_.endpoint.size(),
      parts_.steps_per_epoch, std::ssize(*phases_))];
  const int own = parts_.endpoint.rank();
  const Ranks& members = phase.groups[phase.group_of[own]];
  const auto* const place =
      std::lower_bound(members.begin(), members.end(), own);
  return {members, static_cast<int>(place - members.begin())};
}

void DsSync::average_over(const Group& group) {
  average(group, {{replica().parameters.write()},
                  {averaged_buffers(options_.batchnorm)}});
}

void DsSync::begin_step(const StepPlan& plan) {
  if (size() > 1 && options_.place == Averaging::kBeforeForward)
    average_over(group_of(plan));
}

void DsSync::end_step(const StepPlan& plan) {
  if (size() > 1 && options_.place == Averaging::kAfterUpdate)
    average_over(group_of(plan));
}

void DsSync::finish(RunEnd end) {
  if (options_.final_average && end == RunEnd::kLastStep) average_over(world_);
}

void check_ds_sync(const SchemeRequest& request) {
  // A step changes parameters by less than bf16 resolves.
  refuse_bf16(request, "ds_sync",
              "would round small changes of parameters away");
  const DsSyncOptions& options = request.sync.ds_sync;
  const int64_t phases = std::ssize(ds_sync_phases(options, request.workers));
  if (options.restart == PhaseRestart::kEpoch && request.steps_per_epoch > 0 &&
      request.steps_per_epoch < static_cast<double>(phases))
    fail(ExitCode::kBadInput,
         "ds_sync.restart: is epoch, but an epoch of {} steps is over before "
         "the {} phases are, expected never",
         request.steps_per_epoch, phases);
}

Keys ds_sync_keys() {
  return within(
      &SyncOptions::ds_sync,
      {
          {.name = "ds_sync.radices",
           .place = &DsSyncOptions::radices,
           .doc = "Group sizes of the phases, which are the radices of a "
                  "rank's digits and whose product is the number of "
                  "workers. auto: k, k for k * k workers, otherwise the "
                  "prime factors.",
           .low = 2,
           .zero_word = "auto"},
          {.name = "ds_sync.group",
           .place = &DsSyncOptions::group,
           .doc = "Workers per group if groups are shifted instead of given "
                  "by radices; 0: by radices.",
           .low = 0},
          {.name = "ds_sync.place",
           .place = &DsSyncOptions::place,
           .doc = "Point in a step at which parameters are averaged: before "
                  "forward (as published for images), or after the update "
                  "(for text and clicks)."},
          {.name = "ds_sync.batchnorm",
           .place = &DsSyncOptions::batchnorm,
           .doc =
               "Running statistics of BatchNorm: averaged with the parameters, "
               "or each worker's own.",
           .used_when = {{"model.family", {}, "batchnorm"}}},
          {.name = "ds_sync.restart",
           .place = &DsSyncOptions::restart,
           .doc = "When the sequence of phases restarts: at each epoch, or "
                  "never."},
          {.name = "ds_sync.final_average",
           .place = &DsSyncOptions::final_average,
           .doc = "Whether all replicas are averaged after the last step."},
      });
}

std::optional<double> ds_sync_bytes(const TrafficPlan& plan) {
  const DsSyncOptions& options = plan.request.sync.ds_sync;
  const auto phases = ds_sync_phases(options, plan.N);
  double bytes = 0;
  for (const Partition& phase : phases)
    for (const std::vector<int>& group : phase)
      if (std::find(group.begin(), group.end(), 0) != group.end())
        bytes +=
            plan.all_reduce(static_cast<int>(group.size()),
                            plan.with_buffers(options.batchnorm), Wire::kF32);
  return bytes / static_cast<double>(phases.size());
}

}  // namespace

SchemeInfo ds_sync_scheme() {
  return {.keyword = "ds_sync",
          .description =
              "divide and shuffle: parameters averaged in changing "
              "groups",
          .make = &make<DsSync>,
          .check = &check_ds_sync,
          .keys = &ds_sync_keys,
          .planned_bytes = &ds_sync_bytes,
          .reduces_ranges = true,
          .sums_in_groups = true,
          .uses_collectives = true};
}

}  // namespace syncopate
