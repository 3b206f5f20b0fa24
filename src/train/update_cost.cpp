#include "train/update_cost.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/memory_left.h"
#include "base/rng.h"
#include "train/worker_step.h"

namespace syncopate {
namespace {

constexpr int64_t kWarmup = 2, kMost = 64;  // steps of worker 0
// Of the parameters: enough that they do not stay in a processor's caches.
constexpr int64_t kMostElems = int64_t{1} << 23;

// Counts the steps of all workers from the end of worker 0's warm-up until
// worker 0 has seen enough. The workers share one thread, so together they take
// the time that passes.
class UpdateBench {
 public:
  // `share`: of the network, if it was thinned.
  UpdateBench(Engine& engine, double share, double most_s)
      : engine_(engine),
        most_s_(most_s),
        gradients_(engine.model->parameters().num_elems()),
        parameters_(gradients_.size()),
        buffers_(engine.model->buffers().num_elems()) {
    // Compression takes as long with any values of about the right size.
    fill(parameters_, 1e-1);
    fill(gradients_, 1e-3);
    rows_ = engine.problem->touched_rows(engine, 0, 0,
                                         engine.options.data.accumulate);
    CHECK(std::ssize(rows_) ==
          std::ranges::count(engine.model->parameters().entries(),
                             Role::kEmbedding, &ParameterEntry::role));
    if (share < 1) thin_rows(share);
    keep_rows();
  }

  void run(Endpoint& endpoint) {
    WorkerStep step(engine_, endpoint, nullptr, "");
    const TaskGuard guard{endpoint};
    Replica& replica = step.replica();
    replica.parameters.assign(parameters_);
    replica.buffers.assign(buffers_);
    step.scheme().enter();
    step.meet_at(0);
    step.begin({0, int64_t{1} << 40, 0});
    if (endpoint.rank() == 0) started_s_ = monotonic_s();
    for (int64_t taken = 0;;) {
      const bool is_first = endpoint.rank() == 0;
      if (is_first && is_warm(taken)) begin(taken);
      StepRequest request =
          step.step_request(is_first && is_enough(taken) ? 1 : 0);
      request.has_diverged = false;
      const StepPlan plan = step.scheme().next(request);
      if (plan.stop) break;
      if (plan.is_idle) {
        step.follow(plan);
        continue;
      }
      const double begin_s = monotonic_s();
      replica.gradients.assign(gradients_, engine_.model->parameters(), rows_);
      preparing_s_ += monotonic_s() - begin_s;
      step.take(plan);
      ++taken;
      ++steps_;
    }
    step.end();
  }

  double seconds() const { return seconds_; }

 private:
  // Draws values within half a `width` of 0, of which the first few repeat.
  static void fill(std::span<float> values, double width) {
    constexpr size_t kDrawn = 1 << 16;
    Rng rng(1, Purpose::kStepTime, 0, 0);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i < kDrawn ? static_cast<float>(width * (rng.uniform() - 0.5))
                             : values[i - kDrawn];
  }
  // Of thinned tables, a batch touches as large a share of the rows.
  void thin_rows(double share) {
    auto of_table = rows_.begin();
    for (const ParameterEntry& entry : engine_.model->parameters().entries()) {
      if (entry.role != Role::kEmbedding) continue;
      std::vector<int32_t>& rows = *of_table++;
      const auto count = static_cast<size_t>(
          std::ceil(share * static_cast<double>(rows.size())));
      std::vector<int32_t> kept;  // ascending, evenly chosen
      for (size_t i = 0; i < count; ++i) {
        const int32_t row = rows[i * rows.size() / count];
        const auto place = static_cast<int32_t>(share * row);
        const int32_t next = kept.empty() ? place : kept.back() + 1;
        if (next >= entry.shape[0]) break;
        kept.push_back(
            std::clamp(place, next, static_cast<int32_t>(entry.shape[0]) - 1));
      }
      rows = std::move(kept);
    }
  }
  // Tables have gradients in the rows of one batch.
  void keep_rows() {
    auto rows = rows_.begin();
    for (const ParameterEntry& entry : engine_.model->parameters().entries()) {
      if (entry.role != Role::kEmbedding) continue;
      const std::span<float> table =
          std::span(gradients_)
              .subspan(static_cast<size_t>(entry.offset),
                       static_cast<size_t>(entry.elems()));
      const auto row_elems = static_cast<size_t>(entry.shape[1]);
      auto kept = rows->begin();
      for (size_t row = 0; row * row_elems < table.size(); ++row)
        if (kept != rows->end() && static_cast<size_t>(*kept) == row)
          ++kept;
        else
          std::ranges::fill(table.subspan(row * row_elems, row_elems), 0.0f);
      ++rows;
    }
  }

  // Steps of large networks are long: one of them has to do then.
  bool is_warm(int64_t taken) const {
    return taken >= kWarmup ||
           (taken > 0 && monotonic_s() - started_s_ > most_s_);
  }

  void begin(int64_t taken) {
    if (begin_s_ > 0) return;
    engine_.stream->synchronize();
    begin_s_ = monotonic_s();
    began_at_ = taken;
    preparing_s_ = 0;
    steps_ = 0;
  }

  bool is_enough(int64_t taken) {
    if (seconds_ > 0) return true;
    if (begin_s_ == 0 || taken == began_at_) return false;
    engine_.stream->synchronize();
    const double passed_s = monotonic_s() - begin_s_;
    if (taken < began_at_ + kMost && passed_s < most_s_) return false;
    seconds_ = (passed_s - preparing_s_) / static_cast<double>(steps_);
    return true;
  }

  Engine& engine_;
  const double most_s_;
  std::vector<float> gradients_, parameters_, buffers_;
  std::vector<std::vector<int32_t>> rows_;  // by embedding table
  double started_s_ = 0, begin_s_ = 0, preparing_s_ = 0, seconds_ = 0;
  int64_t began_at_ = 0;  // step of worker 0
  int64_t steps_ = 0;     // of all workers, since
};

// Makes a large network smaller. Returns which share of it is left.
double thin(Model& model) {
  const auto whole = static_cast<double>(model.parameters().num_elems());
  if (whole <= kMostElems) return 1;
  model.thin(kMostElems / whole);
  return static_cast<double>(model.parameters().num_elems()) / whole;
}

}  // namespace

std::optional<double> measure_update(const Session& session,
                                     Engine& engine,
                                     double most_s) {
  const double share = thin(*engine.model);
  // Compressed gossip keeps about as much again as a replica.
  const int64_t worker_bytes = 3 * engine.replica_bytes();
  const int64_t left_bytes = engine.device->kind() == DeviceKind::kCpu
                                 ? host_memory_left(session.local_size()).bytes
                                 : engine.device->free_bytes();
  int workers = std::min(engine.workers, 4);
  if (workers > 2 && workers * worker_bytes > left_bytes / 2) workers = 2;
  // A torus of 9 workers, or groups of 3, cannot be had of 4.
  const std::string obstacle =
      scheme_obstacle({engine.options.sync, engine.options.optimizer,
                       engine.model->parameters(), workers,
                       engine.plan.total_steps, engine.plan.steps_per_epoch});
  if (!obstacle.empty()) workers = engine.workers;
  if (workers * worker_bytes > left_bytes / 2) return std::nullopt;
  engine.has_passes = false;
  UpdateBench bench(engine, share, most_s);
  const auto world = make_inproc_world(workers, NetworkCost{});
  world->run([&](Endpoint& endpoint) { bench.run(endpoint); });
  return bench.seconds() / share;
}

}  // namespace syncopate
