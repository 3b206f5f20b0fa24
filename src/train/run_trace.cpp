#include "train/run_trace.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/trace_parts.h"
#include "comm/clock_offset.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {

RunTrace::RunTrace(const Session& session,
                   const Engine& engine,
                   const fs::path& folder,
                   Start start)
    : session_(session),
      engine_(engine),
      is_on_(engine.options.output.trace == Tracing::kOn),
      path_(folder / "trace.json"),
      start_(start),
      steps_(*parse_trace_steps(engine.options.output.trace_steps)) {
  if (!is_on_ || session.size() > 1) return;
  join_trace_parts(path_);  // of ranks that were killed
  trace_ = std::make_unique<Trace>(Trace::Setup{
      .path = path_,
      .steps = steps_,
      .facts = facts(),
      .process_name = [](int rank) { return fmt::format("worker {}", rank); },
      .earlier = path_});
}

TraceFacts RunTrace::facts() const {
  const bool is_virtual = session_.size() == 1;
  const Options& options = engine_.options;
  TraceFacts facts = {
      {"program", json_string("syncopate")},
      {"scheme", json_string(options.sync.scheme)},
      {"workers", std::to_string(engine_.workers)},
      {"clock", json_string(is_virtual ? "virtual" : "wall")},
      {"steps", json_string(options.output.trace_steps)},
  };
  if (!is_virtual)
    facts.emplace_back("clock_error_us",
                       fmt::format("{:.3f}", clock_error_s_ * 1e6));
  return facts;
}

// The trace of ranks begins at rank 0's present time, behind what an earlier
// process of the run has left.
void RunTrace::align(Endpoint& plain) {
  const ClockOffset mine = measure_clock(plain);
  const TrafficCounters before = plain.traffic();
  const Group world = plain.world_group();
  clock_error_s_ = mine.error_s;
  agree(plain, world, std::span(&clock_error_s_, 1), Combine::kMax,
        tags::kControl);
  if (plain.size() > 2) clock_error_s_ *= 2;  // of ranks other than 0
  std::array<double, 2> start = {plain.now(), clock_error_s_};
  auto& [zero, error_s] = start;
  if (plain.rank() == 0) {
    join_trace_parts(path_);  // of a process that was killed
    if (start_ == Start::kPerhapsResumed) {
      zero -= trace_end_s(path_);
      error_s = std::max(error_s, trace_clock_error_s(path_));
    }
  }
  broadcast(plain, world, bytes_span(std::span<double>(start)), 0,
            tags::kControl, Traffic::kControl);
  clock_error_s_ = error_s;
  plain.traffic() = before;
  trace_ = std::make_unique<Trace>(
      Trace::Setup{.path = trace_part(path_, plain.rank()),
                   .steps = steps_,
                   .facts = facts(),
                   .process_name =
                       [host = session_.hosts()[session_.rank()]](int rank) {
                         return fmt::format("worker {} on {}", rank, host);
                       },
                   .zero = zero - mine.offset_s,
                   .has_all_workers = false,
                   .continues = false,
                   .earlier = start_ == Start::kPerhapsResumed ? path_ : ""});
}

Endpoint& RunTrace::attach(Endpoint& plain) {
  if (!is_on_) return plain;
  if (!plain.has_virtual_time()) align(plain);
  std::unique_ptr<TracedEndpoint>& endpoint = endpoints_[plain.rank()];
  endpoint =
      std::make_unique<TracedEndpoint>(plain, trace_->worker(plain.rank()));
  return *endpoint;
}

void RunTrace::finish(Endpoint& plain) {
  if (!is_on_) return;
  trace_->flush();
  num_recorded_ = trace_->num_recorded();
  if (plain.has_virtual_time()) return;
  auto recorded = static_cast<double>(num_recorded_);
  agree(plain, plain.world_group(), std::span(&recorded, 1), Combine::kCount,
        tags::kControl);  // the parts of all ranks are complete
  num_recorded_ = static_cast<int64_t>(recorded);
  if (plain.rank() == 0) join_trace_parts(path_);
}

std::string RunTrace::description() const {
  if (!is_on_) return "";
  if (trace_->is_past())
    return fmt::format("the steps {} lie before this start",
                       engine_.options.output.trace_steps);
  const std::string clock =
      session_.size() == 1
          ? "virtual time"
          : fmt::format("wall time, clocks of ranks within {:.3g} us",
                        clock_error_s_ * 1e6);
  if (num_recorded_ == 0)
    return fmt::format("{} is empty: no step of {} was reached", path_.string(),
                       engine_.options.output.trace_steps);
  return fmt::format("{} (steps {}, {})", path_.string(),
                     engine_.options.output.trace_steps, clock);
}

}  // namespace syncopate
