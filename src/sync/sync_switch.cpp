#include "sync/sync_switch.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "comm/tags.h"
#include "optim/handover.h"
#include "sync/asp.h"
#include "sync/bsp.h"
#include "sync/fill_removed.h"
#include "sync/order_keeper.h"
#include "sync/phases.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

SyncSwitch::SyncSwitch(const SchemeParts& parts)
    : parts_(parts),
      rank_(parts.endpoint.rank()),
      size_(parts.endpoint.size()),
      optimizer_(parts.optimizer),
      work_left_(phase_lengths(parts.sync.sync_switch,
                               parts.endpoint.size(),
                               parts.total_steps)),
      policy_(parts.endpoint.size(), parts.sync.sync_switch),
      plateau_(parts.sync.sync_switch) {
  CHECK(parts.phases.size() == work_left_.size());
  build();
}

// --- which scheme is at work -------------------------------------------------

int64_t SyncSwitch::next_asp_phase() const {
  for (auto i = setting_.phase; i < std::ssize(parts_.phases); ++i)
    if (parts_.phases[i].sync.scheme == "asp") return i;
  return -1;
}

int64_t SyncSwitch::working_phase() const {
  return setting_.is_episode != 0 ? next_asp_phase() : setting_.phase;
}

bool SyncSwitch::is_last_phase() const {
  return setting_.is_episode == 0 &&
         setting_.phase + 1 == std::ssize(parts_.phases);
}

int SyncSwitch::num_active() const {
  return size_ -
         std::accumulate(setting_.removed.begin(), setting_.removed.end(), 0);
}

double SyncSwitch::rate_factor() const {
  return syncopate::rate_factor(parts_.sync.sync_switch.lr_rule,
                                averages_gradients() ? num_active() : 0, size_);
}

bool SyncSwitch::averages_gradients() const {
  return scheme_info(phase().sync.scheme).averages_gradients;
}

void SyncSwitch::build() {
  asp_ = nullptr;
  inner_.reset();
  follower_.reset();
  built_ = setting_;
  parts_.mean_weight = mean_weight();
  const Phase& now = phase();
  parts_.replica.optimizer =
      hand_over(parts_.context, std::move(parts_.replica.optimizer), optimizer_,
                now.optimizer, parts_.model.parameters());
  optimizer_ = now.optimizer;
  const bool may_use_devices =
      scheme_info(now.sync.scheme).uses_collectives && num_active() == size_;
  const SchemeParts parts{
      .endpoint = parts_.endpoint,
      .context = parts_.context,
      .replica = parts_.replica,
      .model = parts_.model,
      .sync = now.sync,
      .optimizer = now.optimizer,
      .schedule = now.schedule,
      .seed = parts_.seed,
      .total_steps = parts_.total_steps,
      .began_at = began_at_,
      .steps_per_epoch = parts_.steps_per_epoch,
      .batches_per_step = parts_.batches_per_step,
      .batch_weights = parts_.batch_weights,
      .mean_weight = parts_.mean_weight,
      .collectives = may_use_devices ? parts_.collectives : nullptr,
      .shared_sums = parts_.shared_sums,
      .shared_stop = parts_.shared_stop,
      .directory = parts_.directory};
  if (num_active() == size_) {
    inner_ = make_scheme(parts);
    asp_ = dynamic_cast<Asp*>(inner_.get());
    return;
  }
  // A removed worker takes no steps; it stands in for the model.
  const Ranks members = is_removed() ? Ranks({rank_}) : active();
  inner_ = std::make_unique<Bsp>(parts, parts_.endpoint.group(members));
  if (is_removed())
    follower_ = std::make_unique<Lockstep>(
        parts_.endpoint, parts_.endpoint.world_group(), 1, num_active());
}

// Of the batches of active workers.
double SyncSwitch::mean_weight() const {
  if (parts_.batch_weights.empty() || num_active() == size_) return 1;
  double sum = 0;
  for (const int rank : active()) sum += parts_.batch_weights[rank];
  return sum / num_active();
}

Ranks SyncSwitch::active() const {
  if (num_active() == size_) return Ranks::all(size_);
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (setting_.removed[rank] == 0) ranks.push_back(rank);
  return Ranks(std::move(ranks));
}

// --- changes -----------------------------------------------------------------

bool SyncSwitch::is_change_due() const {
  return policy_.wants_change() ||
         (!is_last_phase() && work_left_[working_phase()] <= 0);
}

// If a phase has overrun, by less than a step of all workers, the next one has
// that much less.
void SyncSwitch::enter_next_phase() {
  while (!is_last_phase() && work_left_[setting_.phase] <= 0) {
    work_left_[setting_.phase + 1] += work_left_[setting_.phase];
    work_left_[setting_.phase++] = 0;
    plateau_.begin_phase();
  }
  setting_.removed.clear();
}

Time SyncSwitch::change(int64_t done) {
  times_.add(inner_->take_times());
  // A part of the change, whose time counts as a whole.
  inner_->leave(phase().schedule.rate(static_cast<double>(done) / size_) *
                rate_factor());
  earlier_steps_ += inner_->steps_done();
  const bool averaged = averages_gradients();
  using Known = StragglerDetector::Known;
  if (setting_.is_episode != 0 || work_left_[setting_.phase] <= 0) {
    setting_.is_episode = 0;
    if (work_left_[setting_.phase] <= 0) enter_next_phase();
    policy_.restart(Known::kForgotten);
  } else if (policy_.kind() == SwitchPolicy::kGreedy) {
    setting_.is_episode = 1;
    policy_.restart(Known::kKept);
  } else {
    setting_.removed.resize(size_);
    for (int rank = 0; rank < size_; ++rank)
      setting_.removed[rank] |= policy_.flagged()[rank];
    policy_.forget_flagged();
  }
  note_change(done);
  policy_.clear_decision();
  began_at_ = done;
  if (averaged && !averages_gradients()) to_single_at_ = done;
  build();
  inner_->enter();
  double earliest = parts_.endpoint.now();
  agree(parts_.endpoint, parts_.endpoint.world_group(), std::span(&earliest, 1),
        Combine::kMin, tags::kControl);
  return earliest;
}

void SyncSwitch::note_change(int64_t done) {
  const std::vector<int64_t>& named =
      setting_.is_episode != 0 ? policy_.flagged() : setting_.removed;
  std::vector<std::string> ranks;
  for (size_t rank = 0; rank < named.size(); ++rank)
    if (named[rank] != 0) ranks.push_back(std::to_string(rank));
  const std::string stragglers = fmt::format(
      "worker{} {}", ranks.size() == 1 ? "" : "s", join(ranks, ", "));
  std::string what = fmt::format("phase {} of {}, {}", setting_.phase + 1,
                                 parts_.phases.size(), phase().sync.scheme);
  if (setting_.is_episode != 0)
    what += fmt::format(" while {} slow",
                        stragglers + (ranks.size() == 1 ? " is" : " are"));
  else if (num_active() < size_)
    what += " without " + stragglers;
  notes_.push_back(fmt::format("switch    step {}: {}", done / size_, what));
}

std::vector<std::string> SyncSwitch::take_notes() {
  return std::exchange(notes_, {});
}

// At a boundary the workers' clocks do not say how far each has come, so a
// change that is due there is made by the first next(), as one between
// boundaries is.
void SyncSwitch::begin(const Segment& segment) {
  segment_ = segment;
  is_begun_ = !is_change_due();
  if (is_begun_) begin_inner(segment.from, segment.earliest);
}

void SyncSwitch::switch_over(int64_t done, Time begin) {
  const Time earliest = change(done);
  times_.add(waited_since(begin, parts_.endpoint, "change of scheme"));
  begin_inner(done, earliest);
}

void SyncSwitch::begin_inner(int64_t from, Time earliest) {
  inner_from_ = from;
  taken_ = 0;
  reports_ = watches_workers()
                 ? std::make_unique<StepReports>(parts_.endpoint, active())
                 : nullptr;
  int64_t until = segment_.until;
  if (!is_last_phase())
    until = std::min(until, from + work_left_[working_phase()]);
  const Segment segment{from, until, earliest};
  probe_ = nullptr;
  if (is_removed()) {
    follower_->begin(segment);
    return;
  }
  if (setting_.is_episode != 0 && rank_ == 0) {
    CHECK(asp_ != nullptr);
    asp_->tickets().watch([this](int rank, double step_s) {
      policy_.judge(rank, step_s);
      return !policy_.sees_stragglers();
    });
  }
  inner_->begin(segment);
  if (!watches_workers() || num_active() == 1) return;
  probe_ = std::make_unique<LinkProbe>(
      parts_.endpoint, parts_.endpoint.group(active()),
      parts_.replica.parameters.size() * int64_t{sizeof(float)} / num_active());
  probe_->begin(segment);
}

// --- a step ------------------------------------------------------------------

StepPlan SyncSwitch::next(const StepRequest& mine) {
  if (!std::exchange(is_begun_, true))
    switch_over(segment_.from, parts_.endpoint.now());
  StepRequest request;
  for (;;) {
    request = mine;
    request.step_s = seen_step_s(mine);
    // On rank 0, whose request stops all.
    request.stop =
        std::max(request.stop, static_cast<int>(policy_.wants_change()));
    inner_plan_ = is_removed() ? follow(request) : inner_->next(request);
    if (!inner_plan_.stop) break;
    parts_.endpoint.come_to_boundary();
    const Time begin = parts_.endpoint.now();
    if (is_removed())
      follower_->quiesce();
    else
      inner_->quiesce();
    if (probe_) probe_->quiesce();
    const bool is_reported = setting_.is_episode != 0 && request.step_s > 0;
    const int64_t done = come_to_rest(is_reported ? 0 : seen_step_s(mine));
    if (done >= segment_.until || !is_change_due()) return {.stop = true};
    parts_.endpoint.leave_boundary(0);  // a change sets no clocks back
    switch_over(done, begin);
  }
  if (reports_ && setting_.is_episode == 0) {
    if (taken_ > 0) judge_reported_steps();
    reports_->tell(request.step_s);
  }
  if (probe_) probe_->send();  // now, while links are idle
  ++taken_;
  inner_plan_.rate *= rate_factor();
  inner_plan_.momentum *= momentum_scale(inner_plan_.worker_steps);
  StepPlan plan = inner_plan_;
  plan.step += earlier_steps_;
  return plan;
}

// Returns this worker's last step time as others see it; 0 if unknown, because
// it was not in this segment or no probe has been answered yet.
double SyncSwitch::seen_step_s(const StepRequest& mine) const {
  if (taken_ == 0 || is_removed()) return 0;
  if (!probe_) return mine.step_s;
  const std::optional<double> answer_s = probe_->round_trip_s();
  return answer_s ? mine.step_s + 2 * (num_active() - 1) * *answer_s : 0;
}

StepPlan SyncSwitch::follow(const StepRequest& mine) {
  const Time begin = parts_.endpoint.now();
  const Turn turn = follower_->next(mine);
  if (turn.stop) return {.stop = true};
  times_.add(waited_since(begin, parts_.endpoint, "turn"));
  note_series();
  return {.is_idle = true,
          .step = inner_->steps_done(),
          .worker_steps = turn.worker_steps,
          .rate = phase().schedule.rate(static_cast<double>(turn.worker_steps) /
                                        size_),
          .momentum = phase().optimizer.momentum};
}

// Whether the scheme at work applies single gradients and the one before it
// averaged them. Checkpoints of earlier versions know no more.
bool SyncSwitch::follows_averages() const {
  const int64_t before =
      setting_.is_episode != 0 ? setting_.phase : setting_.phase - 1;
  return before >= 0 && !averages_gradients() &&
         scheme_info(parts_.phases[before].sync.scheme).averages_gradients;
}

double SyncSwitch::momentum_scale(int64_t worker_steps) const {
  if (averages_gradients() || to_single_at_ < 0) return 1;
  const SyncSwitchOptions& options = parts_.sync.sync_switch;
  return momentum_factor(
      options.momentum_rule, size_,
      static_cast<double>(worker_steps - to_single_at_) / size_,
      options.momentum_ramp.steps(parts_.steps_per_epoch));
}

void SyncSwitch::end_step(const StepPlan&) {
  inner_->end_step(inner_plan_);
  note_series();
}

void SyncSwitch::gradient_ready(const Bucket& bucket, const StepPlan&) {
  if (averages_gradients()) weigh_by_samples(parts_, bucket);
  inner_->gradient_ready(bucket, inner_plan_);
}

// Whether steps are timed: if a policy may act or has to undo its action.
bool SyncSwitch::watches_workers() const {
  if (policy_.kind() == SwitchPolicy::kFixed) return false;
  if (setting_.is_episode != 0) return true;
  if (phase().sync.scheme != "bsp") return false;
  return policy_.kind() != SwitchPolicy::kGreedy ||
         (next_asp_phase() >= 0 && work_left_[next_asp_phase()] > 0);
}

void SyncSwitch::judge_reported_steps() {
  const std::span<const double> seconds = reports_->received();
  if (rank_ != 0) return;
  if (setting_.is_episode != 0)
    policy_.judge(seconds);
  else
    policy_.judge_and_flag(seconds, active());
}

// Judges the steps that are still unjudged when a segment ends. In a bsp phase,
// step times are reported during the next step and judged after it, which
// leaves two steps. In an episode, rank 0 judges the time that comes with each
// request for a step.
void SyncSwitch::look_at_last_steps(double unsaid_s) {
  if (setting_.is_episode == 0 && taken_ > 0) judge_reported_steps();
  reports_->tell(unsaid_s);
  judge_reported_steps();
}

// --- at rest -----------------------------------------------------------------

int64_t SyncSwitch::come_to_rest(double unsaid_s) {
  if (reports_) look_at_last_steps(unsaid_s);
  if (setting_.is_episode != 0 && rank_ == 0) policy_.call_for_end();
  const auto count = [this](std::span<double> numbers) {
    agree(parts_.endpoint, parts_.endpoint.world_group(), numbers,
          Combine::kCount, tags::kControl);
  };
  std::array<double, 2> said = {static_cast<double>(steps_done()),
                                policy_.wants_change() ? 1.0 : 0.0};
  count(said);
  const auto done = static_cast<int64_t>(said[0]);
  if (said[1] > 0) {
    std::vector<double> flags = policy_.flags();
    count(flags);
    policy_.adopt_change(flags, setting_.is_episode == 0);
  }
  work_left_[working_phase()] -= done - inner_from_;
  if (num_active() < size_)
    fill_removed(parts_.context, parts_.endpoint, parts_.replica,
                 setting_.removed,
                 phase().sync.bsp.batchnorm == Statistics::kLocal,
                 is_change_due() ? Traffic::kPayload : Traffic::kControl);
  return done;
}

// Ends the current phase if evaluations have stalled: it then has no work left,
// and the next segment begins with the change.
void SyncSwitch::evaluated(double loss, double metric) {
  const int64_t now = setting_.phase;
  if (!plateau_.is_on() || now + 1 == std::ssize(parts_.phases)) return;
  if (work_left_[now] <= 0) return;  // the phase ends after an episode
  if (!plateau_.note(loss, metric)) return;
  work_left_[now + 1] += work_left_[now];
  work_left_[now] = 0;
  notes_.push_back(
      fmt::format("plateau   {} evaluations without an improvement",
                  plateau_.evaluations_since_best()));
}

void SyncSwitch::evaluation_model(EvalModel which,
                                  std::span<float> parameters,
                                  std::span<float> buffers) {
  inner_->evaluation_model(which, parameters, buffers);
}

int64_t SyncSwitch::steps_done() const {
  return earlier_steps_ + inner_->steps_done();
}

SyncTimes SyncSwitch::take_times() {
  times_.add(inner_->take_times());
  return std::exchange(times_, SyncTimes{});
}

void SyncSwitch::visit_state(StateVisitor& visitor) {
  const auto visit = [&](Owner owner, const std::string& name, int64_t& value) {
    visit_number(visitor, owner, "sync_switch/" + name, value);
  };
  visit(Owner::kShared, "phase", setting_.phase);
  visit(Owner::kShared, "episode", setting_.is_episode);
  visit_by_worker(visitor, Owner::kShared, "sync_switch/removed",
                  setting_.removed, size_);
  visitor.visit(Owner::kShared, "sync_switch/work_left", std::span(work_left_));
  visit(Owner::kShared, "began_at", began_at_);
  visit(Owner::kShared, "to_single_at", to_single_at_);
  visit(Owner::kWorker, "earlier_steps", earlier_steps_);
  policy_.visit_state(visitor);
  plateau_.visit_state(visitor);
  if (setting_ != built_) build();  // the checkpoint's phase and members
  if (to_single_at_ < 0 && follows_averages()) to_single_at_ = began_at_;
  inner_->visit_state(visitor);
}

std::vector<SeriesInfo> SyncSwitch::series() const {
  using Over = SeriesInfo::Over;
  return {{"phase", "1", "place in sync_switch.order, from 0", Over::kMax},
          {"scheme", "1",
           "place in sync_switch.order of the scheme at work: the phase's, or "
           "in greedy's episodes a later asp",
           Over::kMax},
          {"active_workers", "1", "workers that take steps", Over::kMax},
          {"detections", "1", "stragglers found so far", Over::kMax}};
}

// During a step: a row may end after the change that follows its last step.
void SyncSwitch::note_series() {
  series_ = {static_cast<double>(setting_.phase),
             static_cast<double>(working_phase()),
             static_cast<double>(num_active()),
             static_cast<double>(policy_.detections())};
}

std::vector<double> SyncSwitch::take_series() {
  if (series_.empty()) note_series();
  return series_;
}

void check_sync_switch(const SchemeRequest& request) {
  const SyncOptions& sync = request.sync;
  check_phases(sync.sync_switch, request.workers, request.total_steps);
  refuse_order(sync.asp, "sync.scheme = sync_switch keeps no order",
               "sync.scheme = asp or ssp");
  if (sync.sync_switch.lr_rule != LrRule::kNone &&
      request.optimizer.lr_scale != LrScale::kNone)
    fail(ExitCode::kBadInput,
         "optimizer.lr_scale: {} where sync_switch.lr_rule = {} scales the "
         "rate, expected none",
         request.optimizer.lr_scale, sync.sync_switch.lr_rule);
}

}  // namespace syncopate
