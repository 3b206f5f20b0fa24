#include "sync/esync.h"

#include <cstring>

#include "base/text.h"
#include "comm/tags.h"
#include "keys/key.h"
#include "ops/combine.h"

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

}  // namespace

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
    Replica& mine = replica();
    combine(context(), mine.parameters, {{1, mine.parameters}, {-1, anchor_}});
    average(world_, {{mine.parameters, wire_},
                     {averaged_buffers(parts_.sync.esync.batchnorm)}});
    const auto rate = static_cast<float>(parts_.sync.esync.global_lr);
    combine(context(), anchor_, {{1, anchor_}, {rate, mine.parameters}});
    combine(context(), mine.parameters, {{1, anchor_}});
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
  visitor.visit(Owner::kShared, "esync/round", std::span(&round_, 1));
  visitor.visit(Owner::kWorker, "esync/local_steps",
                std::span(&last_local_steps_, 1));
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

}  // namespace syncopate
