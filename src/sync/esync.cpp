// ESync: workers of different speeds take as many local steps as fit into a
// round. Round t, replicas all at w_t; worker r:
//
//   until the state server says "ready" (state_server.h, asked after a step):
//     x = optimizer(x, g)                                  n_r local steps
//   w_{t+1} = w_t + global_lr 1/N sum_r (x_r - w_t)        (all-reduce)
//   x = w_{t+1};  RESET
//
// Li et al. (IEEE TSC 2020). The sum is over workers, regardless of
// their n_r. BatchNorm's running statistics are averaged with the parameters or
// stay local. Momentum, if any, is local too.
//
// With esync.query = non_blocking (the paper's delayed answer), the query is in
// flight while the next step runs, and "ready" abandons that step and discards
// its gradient. A step that completes before the answer arrives counts.
//
// A round goes on over boundaries. There, w_t is evaluated and saved as the
// model, with the workers' own parameters beside it; after the run's last step
// the round ends. Workers reach a boundary at different times: from the first
// arrival on, the state server decides nothing, and a worker that asks then
// asks again in the next segment. No worker knows who is waiting for the
// average and who is at the boundary, so they count both: if all are waiting,
// they average, and those at the boundary count until all are there.
//
// In virtual time, the count before an average takes as long as other messages
// of its size, and so do a query and its answer if the worker waits for them.
// The rest of the protocol takes none.
#include <cstring>

#include "base/text.h"
#include "comm/tags.h"
#include "keys/key.h"
#include "ops/combine.h"
#include "sync/kinds.h"
#include "sync/scheme_base.h"
#include "sync/state_server.h"
#include "tensor/visit_numbers.h"

namespace syncopate {
namespace {

bool is_epsilon(const std::string& text) {
  return text == "auto" || parse_double(text).value_or(-1) >= 0;
}

constexpr Tag kToServer = tags::kStateServer;
constexpr Tag kAnswer = tags::kStateServer + 1;
constexpr Tag kCount = tags::kStateServer + 2;

// Step times vary under MPI, and a late step delays every worker, whereas
// omitting one costs its worker at most a step.
constexpr double kMeasuredEpsilon = 0.1;

enum Kind { kQuery, kReset, kEnd };
struct ServerRequest {
  int64_t kind, round, local_steps;
  double step_s;
};
enum Answer : int64_t { kAnotherStep, kReady, kAskAgain };

class Esync final : public SchemeBase {
 public:
  explicit Esync(const SchemeParts& parts);
  void enter() override;
  void begin(const Segment& segment) override;
  bool resume() override;
  StepPlan next(const StepRequest& mine) override;
  bool abandons_step() override;
  // Also if the answer, at a boundary, may still be that the round is over.
  bool is_pulling() const override {
    return waits_ || (waits_for_answer_ && answer_ == kAskAgain);
  }
  void update(const StepPlan& plan) override;
  void end_step(const StepPlan& plan) override;
  void quiesce() override;
  void leave(double rate) override;
  void finish(RunEnd end) override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  void visit_state(StateVisitor& visitor) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;

 private:
  void serve(Endpoint& endpoint);  // rank 0
  void tell(int kind, Traffic traffic = Traffic::kControl);
  void ask();          // the answer will be in answer_
  void take_answer();  // if it has arrived
  void wait_for_answer();
  void start_round();
  bool average_if_all_wait();  // returns whether it has
  void end_round();
  void visit_open_round(StateVisitor& visitor);
  // How many workers wait for the average, are at the boundary, and have taken
  // local steps in this round.
  struct Count {
    double waiting, at_boundary, with_steps;
  };
  Count count(bool is_at_boundary);
  bool averages_buffers() const {
    return parts_.sync.esync.batchnorm == Statistics::kAveraged;
  }
  // Of w_t.
  const DeviceVector<float>& buffers() {
    return averages_buffers() ? anchor_buffers_ : replica().buffers;
  }

  // Resolves esync.epsilon_steps = auto for this world.
  static double epsilon_steps(const SchemeParts& parts);

  bool waits_for_answer_;
  Traffic queries_;
  StateServer server_;  // of no workers, except on rank 0
  Task service_;
  DeviceVector<float> anchor_;          // w_t
  DeviceVector<float> anchor_buffers_;  // empty: not averaged
  DeviceVector<float> saved_buffers_;   // before a step that may be abandoned
  int64_t round_ = 0, local_steps_ = 0;
  // At a boundary: whether any worker has taken a local step in this round.
  int64_t is_open_ = 0;
  bool is_in_segment_ = false, is_first_of_segment_ = false;
  bool has_begun_round_ = false;
  Time step_began_ = 0;
  double step_s_ = 0;
  Request question_;                     // in flight; null: none
  int64_t answer_ = kAnotherStep;        // the last
  bool waits_ = false;                   // for the average
  bool is_abandoned_ = false;            // this step
  int64_t last_local_steps_ = 0;         // of the previous round
  double waited_s_ = 0, abandoned_ = 0;  // since the last row
};

Esync::Esync(const SchemeParts& parts)
    : SchemeBase(parts,
                 std::make_unique<Tickets>(parts.endpoint),
                 {.parameters = Owner::kShared,
                  .buffers = owner_of(parts.sync.esync.batchnorm)}),
      waits_for_answer_(parts.sync.esync.query == Query::kBlocking),
      queries_(waits_for_answer_ ? Traffic::kProbe : Traffic::kControl),
      server_(parts.endpoint.rank() == 0 ? parts.endpoint.size() : 0,
              parts.sync.esync.epsilon_s,
              epsilon_steps(parts)),
      anchor_(make_range(parts.replica.parameters.size())),
      anchor_buffers_(
          make_range(averages_buffers() ? parts.replica.buffers.size() : 0)),
      saved_buffers_(
          make_range(waits_for_answer_ ? 0 : parts.replica.buffers.size())) {}

double Esync::epsilon_steps(const SchemeParts& parts) {
  const std::string& epsilon = parts.sync.esync.epsilon_steps;
  if (epsilon != "auto") return parse_double(epsilon).value();
  return parts.endpoint.has_virtual_time() ? 0 : kMeasuredEpsilon;
}

// --- state server ------------------------------------------------------------

void Esync::serve(Endpoint& endpoint) {
  for (int num_ended = 0; num_ended < endpoint.size();) {
    const Message message = endpoint.recv_any({kToServer, kToServer});
    ServerRequest request;
    CHECK(message.payload.size() == sizeof request);
    std::memcpy(&request, message.payload.data(), sizeof request);
    const Time now = endpoint.now();
    if (request.kind == kEnd) ++num_ended;
    if (request.kind == kReset) server_.reset(message.from, request.round, now);
    if (request.kind != kQuery) continue;
    int64_t answer = kAskAgain;
    if (num_ended == 0)
      answer =
          server_.query(message.from, request.local_steps, request.step_s, now)
              ? kReady
              : kAnotherStep;
    endpoint.wait(endpoint.isend({&answer, sizeof answer}, message.from,
                                 kAnswer, queries_));
  }
}

void Esync::tell(int kind, Traffic traffic) {
  const ServerRequest request{kind, round_, local_steps_, step_s_};
  endpoint().wait(endpoint().isend({&request, sizeof request},
                                   endpoint().server_rank(0), kToServer,
                                   traffic));
}

void Esync::ask() {
  question_ = endpoint().irecv({&answer_, sizeof answer_},
                               endpoint().server_rank(0), kAnswer);
  tell(kQuery, queries_);
  if (!waits_for_answer_) return;
  const Time begin = endpoint().now();
  exposed("state server", [&] {
    wait_for_answer();
    // In virtual time the query is then sent from here again.
    if (answer_ == kAskAgain) endpoint().set_clock(begin);
  });
}

void Esync::take_answer() {
  if (question_ && endpoint().test(question_)) wait_for_answer();
}

void Esync::wait_for_answer() {
  if (question_) endpoint().wait(std::exchange(question_, nullptr));
}

// --- a round -----------------------------------------------------------------

void Esync::enter() {
  combine(context(), anchor_, {{1, replica().parameters}});
  if (averages_buffers())
    combine(context(), anchor_buffers_, {{1, replica().buffers}});
}

void Esync::begin(const Segment& segment) {
  SchemeBase::begin(segment);
  is_in_segment_ = is_first_of_segment_ = true;
  if (is_open_ == 0) {
    enter();
    has_begun_round_ = false;
  }
  if (rank() != 0) return;
  if (is_open_ == 0) server_.begin();
  if (!endpoint().has_virtual_time()) server_.set_clock(endpoint().now());
  service_ = start_server(endpoint(), segment, "state server",
                          [this](Endpoint& endpoint) { serve(endpoint); });
}

void Esync::start_round() {
  tell(kReset);
  has_begun_round_ = true;
}

bool Esync::resume() {
  if (!std::exchange(is_first_of_segment_, false)) return false;
  if (!has_begun_round_) start_round();
  const bool asks_again = answer_ == kAskAgain;
  if (asks_again) ask();
  if (waits_for_answer_) waits_ = answer_ == kReady;
  const bool has_averaged = average_if_all_wait();
  return has_averaged || (asks_again && answer_ != kAskAgain);
}

// A phase may begin between boundaries.
StepPlan Esync::next(const StepRequest& mine) {
  resume();
  const StepPlan plan = SchemeBase::next(mine);
  step_began_ = endpoint().now();
  if (!plan.stop && saved_buffers_.size() > 0)
    combine(context(), saved_buffers_, {{1, replica().buffers}});
  return plan;
}

bool Esync::abandons_step() {
  take_answer();
  is_abandoned_ = !question_ && answer_ == kReady;
  return is_abandoned_;
}

void Esync::update(const StepPlan& plan) {
  if (is_abandoned_) {
    if (saved_buffers_.size() > 0)
      combine(context(), replica().buffers, {{1, saved_buffers_}});
    return;
  }
  step_locally(plan);
  ++local_steps_;
}

void Esync::end_step(const StepPlan&) {
  if (is_abandoned_) {
    ++abandoned_;
  } else {
    step_s_ = endpoint().now() - step_began_;
    take_answer();
    // The answer to the query after the previous step, if it has arrived.
    if (!question_ && answer_ != kReady) ask();
  }
  waits_ = !question_ && answer_ == kReady;
  average_if_all_wait();
}

Esync::Count Esync::count(bool is_at_boundary) {
  double counts[] = {waits_ ? 1.0 : 0.0, is_at_boundary ? 1.0 : 0.0,
                     local_steps_ > 0 ? 1.0 : 0.0};
  agree(endpoint(), world_, counts, Combine::kCount, kCount, Traffic::kProbe);
  return {counts[0], counts[1], counts[2]};
}

bool Esync::average_if_all_wait() {
  if (!waits_) return false;
  const Time begin = endpoint().now();
  const bool do_all = count(false).waiting == size();
  // Otherwise a boundary comes first. In virtual time the wait then goes on
  // after it from here.
  if (!do_all) endpoint().set_clock(begin);
  const SyncTimes waited = waited_since(begin, endpoint(), "other workers");
  times_.add(waited);
  waited_s_ += waited.wait_s;
  if (!do_all) return false;
  end_round();
  start_round();
  return true;
}

void Esync::end_round() {
  // While being exchanged, the parameters hold their difference to w_t.
  const std::span<float> x = replica().parameters.write();
  combine(context(), x, {{1, x}, {-1, anchor_}});
  average(world_,
          {{x, wire_}, {averaged_buffers(parts_.sync.esync.batchnorm)}});
  const auto rate = static_cast<float>(parts_.sync.esync.global_lr);
  combine(context(), anchor_, {{1, anchor_}, {rate, x}});
  combine(context(), x, {{1, anchor_}});
  if (averages_buffers())
    combine(context(), anchor_buffers_, {{1, replica().buffers}});
  ++round_;
  last_local_steps_ = std::exchange(local_steps_, 0);
  is_open_ = 0;
  waits_ = is_abandoned_ = false;
  answer_ = kAnotherStep;
}

// --- boundaries --------------------------------------------------------------

void Esync::quiesce() {
  if (!is_in_segment_) return;
  is_in_segment_ = false;
  wait_for_answer();
  tell(kEnd);
  const Time arrived = endpoint().now();
  Count all;
  do {
    all = count(true);
  } while (all.at_boundary < size());
  endpoint().set_clock(arrived);
  is_open_ = all.with_steps > 0 ? 1 : 0;
  SchemeBase::quiesce();
  if (!service_) return;
  const Time here = endpoint().now();
  endpoint().join(service_);
  service_ = nullptr;
  // A query of which it heard later is asked again.
  endpoint().set_clock(here);
}

void Esync::leave(double rate) {
  if (is_open_ != 0) end_round();
  SchemeBase::leave(rate);
}

void Esync::finish(RunEnd end) {
  if (is_open_ != 0 && end == RunEnd::kLastStep) end_round();
}

void Esync::evaluation_model(EvalModel which,
                             std::span<float> parameters,
                             std::span<float> buffers) {
  if (is_open_ == 0)
    return SchemeBase::evaluation_model(which, parameters, buffers);
  fetch_model(which, anchor_, this->buffers(), parameters, buffers);
}

// --- state and series --------------------------------------------------------

// An open round's replicas are saved beside w_t.
void Esync::visit_state(StateVisitor& visitor) {
  visit_number(visitor, Owner::kShared, "esync/is_open", is_open_);
  if (is_open_ == 0) {
    SchemeBase::visit_state(visitor);
  } else {
    visit_state_with(visitor, anchor_, buffers());
    visit_open_round(visitor);
  }
  visit_number(visitor, Owner::kShared, "esync/round", round_);
  visit_number(visitor, Owner::kWorker, "esync/local_steps", last_local_steps_);
  double unused = 0;  // when the average of a boundary was there
  visit_together(visitor, Owner::kWorker, "esync/times",
                 {&unused, &waited_s_, &abandoned_});
  if (rank() == 0) server_.visit_state(visitor);
}

void Esync::visit_open_round(StateVisitor& visitor) {
  visitor.visit_device_range(Owner::kWorker, "esync/local",
                             parts_.model.parameters(),
                             replica().parameters.write());
  if (averages_buffers())
    visitor.visit_device_range(Owner::kWorker, "esync/local_buffers",
                               parts_.model.buffers(), replica().buffers);
  int64_t progress[] = {has_begun_round_, local_steps_, answer_, waits_};
  visitor.visit(Owner::kWorker, "esync/progress", std::span(progress));
  has_begun_round_ = progress[0] != 0;
  local_steps_ = progress[1];
  answer_ = progress[2];
  waits_ = progress[3] != 0;
  visit_number(visitor, Owner::kWorker, "esync/last_step_s", step_s_);
  if (rank() == 0) server_.visit_round(visitor, endpoint().has_virtual_time());
}

std::vector<SeriesInfo> Esync::series() const {
  using Over = SeriesInfo::Over;
  return {{"round", "1", "aggregations so far", Over::kMax},
          {"local_steps", "1", "local steps of the last round, by worker",
           Over::kWorkers},
          {"waiting_s", "s", "waited for others to aggregate, by worker",
           Over::kWorkers},
          {"abandoned", "1", "steps given up for an aggregation, by worker",
           Over::kWorkers}};
}

std::vector<double> Esync::take_series() {
  return {static_cast<double>(round_), static_cast<double>(last_local_steps_),
          std::exchange(waited_s_, 0), std::exchange(abandoned_, 0)};
}

Keys esync_keys() {
  return within(
      &SyncOptions::esync,
      {
          {.name = "esync.global_lr",
           .place = &EsyncOptions::global_lr,
           .doc = "Rate of the mean of the workers' differences.",
           .low = 0,
           .is_low_open = true},
          {.name = "esync.epsilon_s",
           .place = &EsyncOptions::epsilon_s,
           .doc = "Seconds by which a worker stops early so that it is not "
                  "late (published: 0.5).",
           .low = 0},
          {.name = "esync.epsilon_steps",
           .place = &EsyncOptions::epsilon_steps,
           .doc = "The same in units of the worker's own step time; both "
                  "are added. auto: 0 in virtual time, where step times are "
                  "exact, and 0.1 under MPI, where they vary.",
           .form = {"auto or a number >= 0", is_epsilon}},
          {.name = "esync.query",
           .place = &EsyncOptions::query,
           .doc = "Whether a worker waits for the state server's answer, or "
                  "continues and may abandon the current step, which still "
                  "counts as a step and in /train."},
          {.name = "esync.batchnorm",
           .place = &EsyncOptions::batchnorm,
           .doc = "Running statistics of BatchNorm: averaged at the end of a "
                  "round, or each worker's own.",
           .used_when = {{"model.family", {}, "batchnorm"}}},
      });
}

}  // namespace

SchemeInfo esync_scheme() {
  return {.keyword = "esync",
          .description =
              "ESync: as many local steps as fit before the "
              "slowest worker, then an average",
          .make = &make<Esync>,
          .keys = &esync_keys,
          .uses_wire = true,
          .reduces_ranges = true,
          .uses_collectives = true,
          .keeps_replicas_equal = true,
          .is_free_running = true,
          .has_servers = true};
}

}  // namespace syncopate
