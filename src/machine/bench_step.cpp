#include "machine/bench_step.h"

#include "base/clock.h"

namespace syncopate {
StepBench::StepBench(Session& session,
                     Engine& engine,
                     Endpoint& endpoint,
                     StepListener* also,
                     const StepLimits& limits)
    : engine_(engine),
      also_(also),
      limits_(limits),
      endpoint_(endpoint),
      transport_(
          choose_transport(engine, session.hosts()[session.rank()], endpoint)),
      step_(engine, endpoint, transport_.collectives.get(), "", this) {
  if (endpoint.rank() == 0 && !transport_.text.empty())
    session.log().line("transport {}", transport_.text);
}

// --- listener of the step ----------------------------------------------------

void StepBench::step_begins() {
  if (also_) also_->step_begins();
  marks_.push_back({engine_.mark(), nullptr, {}});
}

void StepBench::batch_arrives() {
  if (also_) also_->batch_arrives();
  marks_.back().parts.push_back({engine_.mark(), nullptr, {}});
}

void StepBench::backward_ends(const PendingSums& sums) {
  if (also_) also_->backward_ends(sums);
  Part& part = marks_.back().parts.back();
  part.has_gradients = engine_.mark();
  part.sums = sums;
}

void StepBench::step_ends() {
  marks_.back().end = engine_.mark();
  if (also_) also_->step_ends();
}

// --- steps -------------------------------------------------------------------

// Initial values, which are the same on all workers without a message.
void StepBench::make_first_values() {
  Replica& replica = step_.replica();
  std::vector<float> parameters(replica.parameters.size());
  std::vector<float> buffers(replica.buffers.size());
  engine_.model->initialise(parameters, buffers, 1);
  replica.parameters.assign(parameters);
  replica.buffers.assign(buffers);
}

// Worker 0, whose figures are printed, ends the bench; the scheme may let
// workers take a few more steps.
StepPlan StepBench::next() {
  const auto timed = std::ssize(times_.data_s);
  const double now_s = monotonic_s();
  const bool is_enough =
      endpoint_.rank() == 0 &&
      (timed >= limits_.most || followed_ >= limits_.most ||
       (timed >= limits_.least && now_s - started_s_ > limits_.least_s) ||
       (warm_s_ && now_s - *warm_s_ > limits_.most_s));
  StepRequest request = step_.step_request(is_enough ? 1 : 0);
  // Steps of a network that diverges take as long.
  request.has_diverged = false;
  return step_.scheme().next(request);
}

StepTimes StepBench::run() {
  make_first_values();
  step_.scheme().enter();
  step_.open_feed();
  step_.meet_at(0);
  constexpr int64_t kFarAway = int64_t{1} << 40;  // more than a bench does
  step_.begin({0, kFarAway, 0});
  started_s_ = monotonic_s();
  const int64_t together = engine_.device->kind() == DeviceKind::kCpu ? 1 : 10;
  int64_t taken = 0;
  for (bool is_over = false; !is_over;) {
    marks_.clear();
    const bool is_warm = taken >= limits_.warmup;
    const double begin_s = monotonic_s();
    if (is_warm && !warm_s_) warm_s_ = begin_s;
    while (std::ssize(marks_) < together) {
      const StepPlan plan = next();
      is_over = plan.stop;
      if (is_over) break;
      if (plan.is_idle) {
        step_.follow(plan);
        ++followed_;
      } else {
        step_.take(plan);
        ++taken;
      }
    }
    engine_.stream->synchronize();
    if (!is_over && is_warm) note(monotonic_s() - begin_s);
  }
  step_.end();
  return times_;
}

void StepBench::note(double seconds) {
  times_.step_s.push_back(seconds / static_cast<double>(marks_.size()));
  for (const Marks& step : marks_) {
    double data_s = 0, forward_s = 0, backward_s = 0;
    const Event* before = step.begin.get();
    for (const Part& part : step.parts) {
      data_s += part.has_batch->seconds_since(*before);
      forward_s += part.sums.arrived().seconds_since(*part.has_batch);
      backward_s += part.has_gradients->seconds_since(part.sums.arrived());
      before = part.has_gradients.get();
    }
    times_.data_s.push_back(data_s);
    times_.forward_s.push_back(forward_s);
    times_.backward_s.push_back(backward_s);
    times_.update_s.push_back(step.end->seconds_since(*before));
  }
}

}  // namespace syncopate
