// Decides who may take the next step: all in lockstep, or whoever is ready.
//
// Work is handed out in segments from one boundary (evaluation, checkpoint,
// end) to the next, counted in worker_steps, so a run's amount of work does not
// depend on its scheme. A worker without a step left waits at the boundary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/endpoint.h"
#include "tensor/state_visitor.h"

namespace syncopate {

struct Segment {
  int64_t from = 0, until = 0;  // worker_steps
  Time earliest = 0;            // the first worker's clock, where services
                                // begin
};

// What a worker tells the others when it requests another step.
struct StepRequest {
  int stop = 0;  // above 0: a signal or time limit asks to stop
  bool has_diverged = false;
  double step_s = 0;        // duration of its last step, computing only
  bool has_paused = false;  // just now: stragglers.episodes
};

struct Turn {
  bool stop = false;         // no step for this worker in this segment
  int64_t step = 0;          // its own count, before the step
  int64_t worker_steps = 0;  // of all workers, before the step
};

class Pace {
 public:
  virtual ~Pace() = default;
  virtual void begin(const Segment& segment) = 0;
  virtual Turn next(const StepRequest& mine) = 0;  // may wait
  virtual void quiesce() = 0;
  // Steps of a worker until a stop that it requested takes effect.
  virtual int64_t stop_lag() const = 0;
  int64_t steps_done() const { return steps_; }
  void visit_state(StateVisitor& visitor);

 protected:
  int64_t steps_ = 0;
};

// Of the workers of one process in a segment.
struct SharedStop {
  int64_t from = -1;       // of the segment
  int64_t most_begun = 0;  // worker_steps after the furthest worker's step
  std::optional<int64_t> until = {};  // worker_steps at which all stop
};

// Every member of the group takes the same number of steps. Their requests are
// agreed concurrently with the computation, `period` steps at a time: a stop
// takes effect up to 2 * period steps after it was requested, and no member
// gets further than that ahead of another. Schemes that wait for all workers at
// each step use period 1; others a period beyond what their own waiting allows,
// so that agreeing slows nobody down. Workers of one process need not agree on
// a stop that is asked of the process: with `shared`, the one that is furthest
// ahead takes no further step, and the others come to where it is. With
// `steppers`, only that many members take steps and the others follow: they
// take part in agreeing on every step and call next() as often, so they always
// know where the run stands.
class Lockstep final : public Pace {
 public:
  Lockstep(Endpoint& endpoint,
           Group group,
           int64_t period,
           int steppers = 0,
           SharedStop* shared = nullptr);
  void begin(const Segment& segment) override;
  Turn next(const StepRequest& mine) override;
  void quiesce() override;
  int64_t stop_lag() const override {
    return shared_ != nullptr ? 1 : 2 * period_;
  }

 private:
  void heed_shared_stop(bool is_asked);

  Endpoint& endpoint_;
  Group group_;
  int64_t period_, steppers_;
  SharedStop* shared_;
  Segment segment_;
  int64_t taken_ = 0, steps_in_segment_ = 0;  // in the segment
  double asks_to_stop_ = 0;                   // in flight while agreement_ is
  Task agreement_;
};

// Numbered steps go to whoever asks first, from a service on rank 0. With a
// bound, a worker that is `bound` steps ahead of the one with the fewest gets
// none.
class Tickets final : public Pace {
 public:
  static constexpr int64_t kNoBound = -1;
  explicit Tickets(Endpoint& endpoint, int64_t bound = kNoBound);

  // Rank 0: called on each request (rank, seconds of that worker's last step);
  // true closes the segment.
  using EndsEarly = std::function<bool(int rank, double step_s)>;
  void watch(EndsEarly ends_early) { ends_early_ = std::move(ends_early); }
  // Rank 0: record appends the ranks that got steps, in order; replay hands out
  // steps only in the given order, which must outlive this object.
  void record(std::vector<int64_t>* grants) { record_ = grants; }
  void replay(const std::vector<int64_t>* grants) { replay_ = grants; }

  void begin(const Segment& segment) override;
  // With a bound: `steps` on rank 0 are those of each worker so far.
  void begin(const Segment& segment, std::vector<int64_t> steps);
  // Requests the step that next() then waits for (and ignores its own request),
  // so that the answer arrives while this worker waits for something else.
  // Otherwise next() requests it.
  void ask(const StepRequest& mine);
  Turn next(const StepRequest& mine) override;
  void quiesce() override;
  int64_t stop_lag() const override { return 2; }

 private:
  struct TicketRequest {
    int64_t steps;  // so far
    int64_t ends;   // 1: the segment is to end
    double step_s;
  };
  void serve(Endpoint& endpoint);

  Endpoint& endpoint_;
  int64_t bound_;
  EndsEarly ends_early_;
  std::vector<int64_t>* record_ = nullptr;
  const std::vector<int64_t>* replay_ = nullptr;
  Segment segment_;
  std::vector<int64_t> steps_before_;  // the segment, by rank
  bool is_open_ = false, is_over_ = false;
  TicketRequest wanted_{};
  int64_t ticket_ = 0;
  Request request_, answer_;  // in flight
  Task service_;              // rank 0
};

// Starts a service at segment.earliest, whatever this worker's clock says.
Task start_service(Endpoint& endpoint,
                   const Segment& segment,
                   std::string name,
                   std::function<void(Endpoint&)> body);
// The same for a parameter server (Endpoint::serve_apart).
Task start_server(Endpoint& endpoint,
                  const Segment& segment,
                  std::string name,
                  std::function<void(Endpoint&)> body);

}  // namespace syncopate
