#include "machine/bench.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/median.h"
#include "machine/bench_step.h"
#include "ops/op_listener.h"

namespace syncopate {
namespace {

// Steps. On a GPU those of the warm-up and those whose ops are timed are one
// group of StepBench's, so that its other groups are undisturbed.
constexpr int64_t kWarmup = 3, kTimed = 7;
constexpr StepLimits kLimits = {.warmup = kWarmup + kTimed,
                                .least = 40,
                                .most = 40,
                                .least_s = 0,
                                .most_s = 5};
constexpr double kLeastShare = 0.002;  // of a line of its own

struct Row {
  std::string op, shape, engine;
  double calls = 0, seconds = 0, bytes = 0, flop = 0;  // per step
};

// `a`, with "*" for each number that differs from b's.
std::string common_shape(const std::string& a, const std::string& b) {
  std::string common;
  size_t i = 0, j = 0;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto number = [&](const std::string& text, size_t& at) {
    const size_t begin = at;
    while (at < text.size() && (is_digit(text[at]) || text[at] == '*')) ++at;
    return text.substr(begin, at - begin);
  };
  while (i < a.size()) {
    const std::string of_a = number(a, i), of_b = number(b, j);
    common += of_a == of_b ? of_a : "*";
    if (i < a.size()) common += a[i++];
    if (j < b.size()) ++j;
  }
  return common;
}

// Records events around each op of the first few steps and leaves the following
// steps undisturbed.
class LayerBench final : public StepListener, private OpListener {
 public:
  explicit LayerBench(Engine& engine) : engine_(engine) {}

  void step_begins() override {
    if (++steps_ <= kWarmup || std::ssize(kept_) == kTimed) return;
    kept_.emplace_back();
    engine_.context->take_engine();  // of an op that nobody listened to
    engine_.context->listen(this);
  }
  void step_ends() override { engine_.context->listen(nullptr); }

  // `step_s`: the seconds of undisturbed steps, if there were any.
  void report(Log& log, const std::vector<double>& step_s) const;

 private:
  struct Timed {
    OpCall call;
    std::string engine;
    std::unique_ptr<Event> begin, end;
    double seconds() const { return end->seconds_since(*begin); }
  };
  using Step = std::vector<Timed>;

  void op_begins(const OpCall& call) override {
    engine_.device->begin_range(call.op);
    kept_.back().push_back({call, {}, engine_.mark(), nullptr});
  }
  void op_ends(std::string_view engine) override {
    kept_.back().back().end = engine_.mark();
    kept_.back().back().engine = engine;
    engine_.device->end_range();
  }
  // Shapes in the order of the step's ops. All steps must call the same ops.
  std::vector<std::string> shapes() const;

  Engine& engine_;
  int64_t steps_ = 0;       // including those of the warm-up
  std::vector<Step> kept_;  // the steps whose ops were timed
};

// The lengths of sequences vary from step to step, and so do shapes.
std::vector<std::string> LayerBench::shapes() const {
  std::vector<std::string> shapes;
  for (const Timed& timed : kept_.front()) shapes.push_back(timed.call.shape);
  for (const Step& step : kept_) {
    CHECK_MSG(step.size() == shapes.size(), "steps of {} and of {} ops",
              step.size(), shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i)
      if (step[i].call.shape != shapes[i])
        shapes[i] = common_shape(shapes[i], step[i].call.shape);
  }
  return shapes;
}

void LayerBench::report(Log& log, const std::vector<double>& step_s) const {
  const std::vector<std::string> shape_of = shapes();
  std::map<std::tuple<std::string, std::string, std::string>, Row> by_kind;
  double all_s = 0;
  const auto steps = static_cast<double>(kept_.size());
  for (const Step& step : kept_)
    for (size_t i = 0; i < step.size(); ++i) {
      const Timed& timed = step[i];
      const OpCall& call = timed.call;
      Row& row = by_kind[{call.op, shape_of[i], timed.engine}];
      row.op = call.op;
      row.shape = shape_of[i];
      row.engine = timed.engine.empty() ? "own" : timed.engine;
      row.calls += 1 / steps;
      row.seconds += timed.seconds() / steps;
      row.bytes += static_cast<double>(call.bytes) / steps;
      row.flop += call.flop / steps;
      all_s += timed.seconds() / steps;
    }
  std::vector<Row> rows;
  Row others;
  others.op = "others";
  for (const auto& [kind, row] : by_kind) {
    if (row.seconds >= kLeastShare * all_s) {
      rows.push_back(row);
      continue;
    }
    others.calls += row.calls;
    others.seconds += row.seconds;
    others.bytes += row.bytes;
    others.flop += row.flop;
  }
  std::ranges::stable_sort(rows, std::greater(), &Row::seconds);
  if (others.calls > 0) rows.push_back(others);

  log.line("{:<24} {:<28} {:>5} {:>9} {:>6} {:>7} {:>8}  {}", "op", "shape",
           "calls", "ms", "share", "GB/s", "TFLOP/s", "engine");
  double flop = 0;
  for (const Row& row : rows) {
    const std::string rate =
        row.flop > 0 ? fmt::format("{:.3f}", 1e-12 * row.flop / row.seconds)
                     : "";
    log.line("{:<24} {:<28} {:>5.4g} {:>9.3f} {:>5.1f}% {:>7.1f} {:>8}  {}",
             row.op, row.shape, row.calls, 1e3 * row.seconds,
             100 * row.seconds / all_s, 1e-9 * row.bytes / row.seconds, rate,
             row.engine);
    flop += row.flop;
  }
  log.line("arithmetic of a step: {:.3f} GFLOP", 1e-9 * flop);
  if (engine_.device->kind() == DeviceKind::kCuda)
    log.line(
        "ops of less than some 10 us show how long a launch takes: with an "
        "event around each the host has no lead over the GPU");
  log.line("ops: {:.3f} ms per step{}", 1e3 * all_s,
           step_s.empty() ? "; no time for an undisturbed step"
                          : fmt::format("; an undisturbed step: {:.3f} ms",
                                        1e3 * median(step_s)));
}

}  // namespace

// Ops of recorded steps cannot be timed, so steps are not recorded.
void bench_layers(Session& session, Engine& engine) {
  engine.options.run.cuda_graphs = false;
  const auto world = session.make_world(engine.workers, NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    LayerBench layers(engine);
    const StepTimes times =
        StepBench(session, engine, endpoint, &layers, kLimits).run();
    if (endpoint.rank() == 0) layers.report(session.log(), times.step_s);
  });
}

}  // namespace syncopate
