// Sync-Switch: a run in phases, each with its own scheme (published: bsp first,
// then asp), in one process and without a restart: at the end of a phase the
// scheme quiesces, the replicas become one model, and the next scheme
// continues.
//
//   rate      lr_rule linear: times the number of workers whose gradients are
//             averaged, so that optimizer.lr is that of one mini-batch; t2t:
//             and divided by the square root of the number of workers in other
//             phases, as published (inputs/README.md, "How published rates
//             convert")
//   momentum  momentum_rule, after a switch from averaged to single gradients
//
// Li, Mangoubi, Xu & Guo, "Sync-Switch: Hybrid Parameter Synchronization for
// Distributed Deep Learning" (ICDCS 2021). Phases are counted in
// worker_steps (phases.h). Policies against stragglers (straggler_policy.h)
// act in bsp phases. (A worker's step time is its computing time plus, for each
// of the 2 (n - 1) messages of a ring all-reduce among n workers, the answer
// time of a probe, link_probe.h.)
//   greedy   switches to asp until no worker is a straggler, then returns to
//            bsp for the rest of the phase's work. The work of the episode is
//            taken from the next asp phase, of which it is at most all.
//   elastic  continues bsp without the straggler until the phase's work is
//            done; then all continue from the model of those that stayed,
//            always at least half of all. A removed worker follows step by
//            step, so that log rows and stop requests work as usual.
// plateau: a phase that has stalled (plateau_rule.h) ends early, and the next
// one inherits the rest of its work.
//
// Changes happen, agreed by all, when no worker has a step in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/link_probe.h"
#include "sync/plateau_rule.h"
#include "sync/scheme.h"
#include "sync/step_reports.h"
#include "sync/straggler_policy.h"

namespace syncopate {

class Asp;

class SyncSwitch final : public Scheme {
 public:
  explicit SyncSwitch(const SchemeParts& parts);
  void enter() override { inner_->enter(); }
  void begin(const Segment& segment) override;
  bool resume() override {
    return is_begun_ && !is_removed() && inner_->resume();
  }
  StepPlan next(const StepRequest& mine) override;
  void begin_step(const StepPlan&) override { inner_->begin_step(inner_plan_); }
  void gradient_ready(const Bucket& bucket, const StepPlan& plan) override;
  bool abandons_step() override { return inner_->abandons_step(); }
  void update(const StepPlan&) override { inner_->update(inner_plan_); }
  void end_step(const StepPlan&) override;
  bool is_pulling() const override { return inner_->is_pulling(); }
  void quiesce() override {}  // next() has quiesced before it says stop
  void gather() override { inner_->gather(); }
  void leave(double rate) override { inner_->leave(rate); }
  void finish(RunEnd end) override { inner_->finish(end); }
  void evaluated(double loss, double metric) override;
  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override;
  void visit_state(StateVisitor& visitor) override;
  int64_t steps_done() const override;
  const OptimizerOptions& optimizer_options() const override {
    return phase().optimizer;
  }
  int64_t server_bytes() const override { return inner_->server_bytes(); }
  int64_t stop_lag() const override { return inner_->stop_lag(); }
  SyncTimes take_times() override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override;
  std::vector<std::string> take_notes() override;

 private:
  // Which scheme is active; agreed by all.
  struct Setting {
    int64_t phase = 0;
    int64_t is_episode = 0;        // greedy: asp for a while
    std::vector<int64_t> removed;  // elastic: by rank; empty: nobody
    bool operator==(const Setting&) const = default;
  };

  const Phase& phase() const { return parts_.phases[working_phase()]; }
  // The phase whose work is being done: in an episode, the next asp phase.
  int64_t working_phase() const;
  int64_t next_asp_phase() const;
  bool is_last_phase() const;
  bool is_removed() const {
    return !setting_.removed.empty() && setting_.removed[rank_] != 0;
  }
  int num_active() const;
  bool averages_gradients() const;
  double rate_factor() const;  // of the scheme at work

  void build();  // inner_ of the setting
  double mean_weight() const;
  void begin_inner(int64_t from, Time earliest);
  StepPlan follow(const StepRequest& mine);  // for a removed worker
  double seen_step_s(const StepRequest& mine) const;
  bool watches_workers() const;
  Ranks active() const;
  bool is_change_due() const;
  Time change(int64_t done);  // returns the first worker's clock
  // Changes and goes on with the segment; the time since `begin` is exposed.
  void switch_over(int64_t done, Time begin);
  void enter_next_phase();
  // Returns the worker_steps done. `unsaid_s` is this worker's last step time
  // as in seen_step_s, if it has not been reported yet.
  int64_t come_to_rest(double unsaid_s);
  void look_at_last_steps(double unsaid_s);
  void judge_reported_steps();
  void note_change(int64_t done);
  void note_series();
  bool follows_averages() const;
  double momentum_scale(int64_t worker_steps) const;

  SchemeParts parts_;
  int rank_, size_;
  Setting setting_, built_;
  std::unique_ptr<Scheme> inner_;
  Asp* asp_ = nullptr;                    // inner_ if it is an Asp, else null
  std::unique_ptr<Lockstep> follower_;    // for a removed worker
  std::unique_ptr<LinkProbe> probe_;      // while workers are watched
  std::unique_ptr<StepReports> reports_;  // likewise
  OptimizerOptions optimizer_;  // from which replica.optimizer was made

  std::vector<int64_t> work_left_;  // worker_steps by phase
  int64_t began_at_ = 0;            // worker_steps at the last change
  // worker_steps at the last change from averaged to single gradients; -1: none
  int64_t to_single_at_ = -1;
  int64_t earlier_steps_ = 0;  // of this worker, under earlier schemes
  StragglerPolicy policy_;
  PlateauRule plateau_;
  std::vector<std::string> notes_;
  std::vector<double> series_;  // of the last step

  Segment segment_;
  bool is_begun_ = false;               // the segment, by the inner scheme
  int64_t inner_from_ = 0, taken_ = 0;  // in the inner segment
  StepPlan inner_plan_;
  SyncTimes times_;
};

void check_sync_switch(const SchemeRequest& request);

}  // namespace syncopate
