// ESync: workers of different speeds take as many local steps as fit into a
// round. Round t, replicas all at w_t; worker r:
//
//   until the state server says "ready" (state_server.h, asked after a step):
//     x = optimizer(x, g)                                  n_r local steps
//   w_{t+1} = w_t + global_lr 1/N sum_r (x_r - w_t)        (all-reduce)
//   x = w_{t+1};  RESET
//
// Li et al. (IEEE TSC 2020), spec 4.1. The sum is over workers, regardless of
// their n_r. BatchNorm's running statistics are averaged with the parameters or
// stay local. Momentum, if any, is local too.
//
// With esync.query = non_blocking (the paper's delayed answer), the query is in
// flight while the next step runs, and "ready" abandons that step and discards
// its gradient. A step that completes before the answer arrives counts.
//
// At a boundary all workers end the round together if any of them has taken a
// step in it. No worker knows who is waiting in an aggregation for whom, so
// each aggregation begins with a count of local steps and of workers at the
// boundary: those at the boundary take part in aggregations until all are
// there.
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
struct Letter {
  int64_t kind, round, local_steps;
  double step_s;
};

class Esync final : public SchemeBase {
 public:
  explicit Esync(const SchemeParts& parts);
  void begin(const Segment& segment) override;
  StepPlan next(const Word& mine) override;
  bool abandons_step() override;
  void update(const StepPlan& plan) override;
  void end_step(const StepPlan& plan) override;
  void quiesce() override;
  void visit_state(StateVisitor& visitor) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;

 private:
  enum class At { kStep, kBoundary };
  void serve(Endpoint& endpoint);  // rank 0
  void tell(int kind);
  void ask();         // the answer will be in answer_
  bool has_answer();  // in answer_; nothing is pending then
  void wait_for_answer();
  bool aggregate(At at);  // returns whether all are at the boundary
  void start_round();

  // Resolves esync.epsilon_steps = auto for this world.
  static double epsilon_steps(const SchemeParts& parts);

  bool waits_for_answer_;
  StateServer server_;  // of no workers, except on rank 0
  Task service_;
  DeviceVector<float> anchor_;  // w_t
  int64_t round_ = 0, local_steps_ = 0;
  bool is_open_ = false, has_begun_round_ = false;
  Time step_began_ = 0;
  double step_s_ = 0;
  Time available_at_ = 0;  // when a boundary's aggregation is complete
  Request question_;       // in flight; null: none
  int64_t answer_ = 0;     // 1: ready
  bool is_ready_ = false, is_abandoned_ = false;
  int64_t last_local_steps_ = 0;         // of the previous round
  double waited_s_ = 0, abandoned_ = 0;  // since the last row
};

Esync::Esync(const SchemeParts& parts)
    : SchemeBase(parts,
                 std::make_unique<Tickets>(parts.endpoint),
                 {.parameters = Owner::kShared,
                  .buffers = owner_of(parts.sync.esync.batchnorm)}),
      waits_for_answer_(parts.sync.esync.query == Query::kBlocking),
      server_(parts.endpoint.rank() == 0 ? parts.endpoint.size() : 0,
              parts.sync.esync.epsilon_s,
              epsilon_steps(parts)),
      anchor_(make_range(parts.replica.parameters.size())) {}

double Esync::epsilon_steps(const SchemeParts& parts) {
  const std::string& epsilon = parts.sync.esync.epsilon_steps;
  if (epsilon != "auto") return parse_double(epsilon).value();
  return parts.endpoint.has_virtual_time() ? 0 : kMeasuredEpsilon;
}

// --- state server ------------------------------------------------------------

void Esync::serve(Endpoint& endpoint) {
  for (int num_ended = 0; num_ended < endpoint.size();) {
    const Message message = endpoint.recv_any({kToServer, kToServer});
    Letter letter;
    CHECK(message.payload.size() == sizeof letter);
    std::memcpy(&letter, message.payload.data(), sizeof letter);
    const Time now = endpoint.now();
    if (letter.kind == kEnd) ++num_ended;
    if (letter.kind == kReset) server_.reset(message.from, letter.round, now);
    if (letter.kind != kQuery) continue;
    const int64_t answer =
        server_.query(message.from, letter.local_steps, letter.step_s, now);
    endpoint.wait(endpoint.isend({&answer, sizeof answer}, message.from,
                                 kAnswer, Traffic::kControl));
  }
}

void Esync::tell(int kind) {
  const Letter letter{kind, round_, local_steps_, step_s_};
  endpoint().wait(endpoint().isend({&letter, sizeof letter}, 0, kToServer,
                                   Traffic::kControl));
}

void Esync::ask() {
  question_ = endpoint().irecv({&answer_, sizeof answer_}, 0, kAnswer);
  tell(kQuery);
}

bool Esync::has_answer() {
  if (!question_ || !endpoint().test(question_)) return false;
  wait_for_answer();
  return true;
}

void Esync::wait_for_answer() {
  if (!question_) return;
  endpoint().wait(question_);
  question_ = nullptr;
  is_ready_ = answer_ == 1;
}

// --- a round -----------------------------------------------------------------

void Esync::begin(const Segment& segment) {
  SchemeBase::begin(segment);
  is_open_ = true;
  combine(context(), anchor_, {{1, replica().parameters}});
  has_begun_round_ = false;
  if (rank() != 0) return;
  server_.begin();
  service_ = start_service(endpoint(), segment, "state server",
                           [this](Endpoint& endpoint) { serve(endpoint); });
}

void Esync::start_round() {
  tell(kReset);
  has_begun_round_ = true;
}

StepPlan Esync::next(const Word& mine) {
  if (!has_begun_round_) {
    exposed("average", [&] {
      if (available_at_ > endpoint().now())
        endpoint().advance(available_at_ - endpoint().now());
    });
    start_round();
  }
  const StepPlan plan = SchemeBase::next(mine);
  step_began_ = endpoint().now();
  return plan;
}

bool Esync::abandons_step() {
  if (has_answer()) is_abandoned_ = is_ready_;
  return is_abandoned_;
}

void Esync::update(const StepPlan& plan) {
  if (is_abandoned_) return;
  step_locally(plan);
  ++local_steps_;
}

void Esync::end_step(const StepPlan&) {
  if (is_abandoned_) {
    ++abandoned_;
  } else {
    step_s_ = endpoint().now() - step_began_;
    has_answer();
    // The answer to the query after the previous step, if it has arrived.
    if (!is_ready_ && !question_) ask();
    if (waits_for_answer_) exposed("state server", [&] { wait_for_answer(); });
  }
  if (!is_ready_) return;
  aggregate(At::kStep);
  start_round();
}

bool Esync::aggregate(At at) {
  const Time begin = endpoint().now();
  double count[] = {static_cast<double>(local_steps_),
                    at == At::kBoundary ? 1.0 : 0.0};
  agree(endpoint(), world_, count, Combine::kCount, kCount);
  const SyncTimes waited = waited_since(begin, endpoint(), "other workers");
  times_.add(waited);
  if (at == At::kStep) waited_s_ += waited.wait_s;
  if (count[0] > 0) {
    // While being exchanged, the parameters hold their difference to w_t.
    const std::span<float> x = replica().parameters.write();
    combine(context(), x, {{1, x}, {-1, anchor_}});
    average(world_,
            {{x, wire_}, {averaged_buffers(parts_.sync.esync.batchnorm)}});
    const auto rate = static_cast<float>(parts_.sync.esync.global_lr);
    combine(context(), anchor_, {{1, anchor_}, {rate, x}});
    combine(context(), x, {{1, anchor_}});
    ++round_;
    last_local_steps_ = local_steps_;
    local_steps_ = 0;
    if (at == At::kBoundary) available_at_ = endpoint().now();
  }
  is_ready_ = is_abandoned_ = false;
  return count[1] == size();
}

void Esync::quiesce() {
  if (!is_open_) return;
  is_open_ = false;
  wait_for_answer();
  // Clocks are set back at a boundary, so waiting here counts in next().
  const SyncTimes before = times_;
  while (!aggregate(At::kBoundary)) {
  }
  times_ = before;
  tell(kEnd);
  SchemeBase::quiesce();
  if (service_) endpoint().join(service_);
  service_ = nullptr;
}

// --- state and series --------------------------------------------------------

void Esync::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  visit_number(visitor, Owner::kShared, "esync/round", round_);
  visit_number(visitor, Owner::kWorker, "esync/local_steps", last_local_steps_);
  // Past times are meaningless to the clock of another process or world.
  if (available_at_ <= endpoint().now()) available_at_ = 0;
  double times[] = {available_at_, waited_s_, abandoned_};
  visitor.visit(Owner::kWorker, "esync/times", std::span(times));
  available_at_ = times[0];
  waited_s_ = times[1];
  abandoned_ = times[2];
  if (rank() == 0) server_.visit_state(visitor);
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
                  "continues and abandons the current step."},
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
          .is_free_running = true};
}

}  // namespace syncopate
