#include "train/update_cost.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/memory_left.h"
#include "base/rng.h"
#include "topology/topology.h"
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

// How many workers' messages a worker reads per step, on average, if that may
// grow with their number; otherwise 1.
double messages_read(const Engine& engine, int workers) {
  const SyncOptions& sync = engine.options.sync;
  const SchemeInfo& info = scheme_info(sync.scheme);
  if (engine.sends_rows() || (info.sends_to_all && !info.is_free_running))
    return workers - 1;
  if (!info.uses_topology) return 1;
  const Topology topology = make_topology(sync.topology, workers);
  double messages = 0;
  for (int rank = 0; rank < workers; ++rank)
    messages += static_cast<double>(topology.neighbours(rank).size());
  return messages / workers;
}

// The input's options for a measurement with so many workers, which may be too
// few for its servers. What a step computes does not depend on their number.
SyncOptions options_of(const SyncOptions& sync, int workers) {
  SyncOptions own = sync;
  own.asp.servers = std::min<int64_t>(own.asp.servers, workers);
  return own;
}

// Numbers of workers to measure; 0: they do not fit into memory.
struct Sizes {
  int few = 0;
  // Other than `few` only if a worker's messages grow in number.
  int more = 0;
};

class SizeChoice {
 public:
  SizeChoice(const Session& session, const Engine& engine)
      : engine_(engine),
        elems_(engine.model->parameters().num_elems()),
        left_bytes_(engine.device->kind() == DeviceKind::kCpu
                        ? host_memory_left(session.local_size()).bytes
                        : engine.device->free_bytes()) {}

  Sizes choose() const {
    const int few = few_workers();
    if (few == 0) return {};
    const double read = messages_read(engine_, few);
    if (messages_read(engine_, engine_.workers) <= read) return {few, few};
    const int most = std::min(engine_.workers, std::max(kMany, 2 * few));
    for (int more = most; more > few; --more)
      if (can_have(more) && messages_read(engine_, more) > read && fits(more) &&
          (more <= 2 * few || is_short(more)))
        return {few, more};
    return {};
  }

 private:
  static constexpr int kFew = 4, kMany = 32;

  // Four workers or, where a set-up needs more (a torus 9 workers, groups of 8
  // as many), the least number that it can have. Two or three where memory
  // suffices for no more.
  int few_workers() const {
    const int first = std::min(engine_.workers, kFew);
    for (int workers = first; workers <= engine_.workers; ++workers) {
      if (!can_have(workers)) continue;
      if (fits(workers)) return workers;
      break;
    }
    for (int workers = first - 1; workers >= 2; --workers)
      if (can_have(workers) && fits(workers)) return workers;
    return 0;
  }

  bool can_have(int workers) const {
    const SyncOptions sync = options_of(engine_.options.sync, workers);
    return scheme_obstacle({sync, engine_.options.optimizer,
                            engine_.model->parameters(), workers,
                            engine_.plan.total_steps,
                            engine_.plan.steps_per_epoch})
        .empty();
  }

  bool fits(int workers) const {
    // A scheme may keep about as much again as a replica, and, of every worker
    // whose messages it reads, a message and a copy of the model.
    const double bytes = 3.0 * static_cast<double>(engine_.replica_bytes()) +
                         2.0 * 4.0 * messages_read(engine_, workers) *
                             static_cast<double>(elems_);
    return workers * bytes <= static_cast<double>(left_bytes_) / 2;
  }

  bool is_short(int workers) const {
    // Of the steps of all workers: workers x messages x parameters.
    constexpr double kMostRead = 64.0 * kMostElems;
    return workers * messages_read(engine_, workers) *
               static_cast<double>(elems_) <=
           kMostRead;
  }

  const Engine& engine_;
  const int64_t elems_, left_bytes_;
};

}  // namespace

std::optional<UpdateCost> measure_update(const Session& session,
                                         Engine& engine,
                                         double most_s) {
  const double share = thin(*engine.model);
  engine.has_passes = false;
  const Sizes sizes = SizeChoice(session, engine).choose();
  if (sizes.few == 0) return std::nullopt;
  const SyncOptions sync = engine.options.sync;
  const auto measure = [&](int workers) {
    engine.options.sync = options_of(sync, workers);
    UpdateBench bench(engine, share, most_s);
    const auto world = make_inproc_world(workers, NetworkCost{});
    world->run([&](Endpoint& endpoint) { bench.run(endpoint); });
    return bench.seconds() / share;
  };
  const double more_s = measure(sizes.more);
  if (sizes.more == sizes.few || sizes.more == engine.workers)
    return UpdateCost{.seconds = more_s};
  const double few_s = measure(sizes.few);
  const double few = messages_read(engine, sizes.few);
  const double more = messages_read(engine, sizes.more);
  const double rate_s = std::max(0.0, (more_s - few_s) / (more - few));
  const double beyond = messages_read(engine, engine.workers) - more;
  return UpdateCost{.seconds = more_s + rate_s * beyond,
                    .is_extrapolated = true};
}

}  // namespace syncopate
