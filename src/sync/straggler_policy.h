// sync_switch.policy: decides from the workers' step times when stragglers call
// for a change, and when an episode of greedy may end. Rank 0 judges: in a bsp
// phase it receives all step times, in an episode it hands out every step. The
// others adopt its decision when all are at rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/endpoint.h"
#include "sync/options.h"
#include "sync/straggler_detector.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class StragglerPolicy {
 public:
  StragglerPolicy(int workers, const SyncSwitchOptions& options);

  SwitchPolicy kind() const { return kind_; }
  bool wants_change() const { return wants_change_ != 0; }
  // By rank, 1: a straggler that calls for a change. Empty: nobody.
  const std::vector<int64_t>& flagged() const { return flagged_; }
  int64_t detections() const { return detections_; }  // stragglers found so far

  // On rank 0, in a bsp phase: judges a step of the active workers and flags
  // those that call for a change: with elastic the slowest first, such that at
  // least half of all workers stay. `step_seconds` is by rank, 0: unknown.
  void judge_and_flag(std::span<const double> step_seconds,
                      const Ranks& active);
  // On rank 0: judges steps without flagging, of workers by rank or of one; 0:
  // unknown.
  void judge(std::span<const double> step_seconds);
  void judge(int rank, double step_s);
  bool sees_stragglers() const { return detector_.any(); }
  // On rank 0, in an episode: calls for its end if no straggler is left.
  void call_for_end() { wants_change_ = detector_.any() ? 0 : 1; }

  // If rank 0 wants a change, every worker adopts it with rank 0's flags, by
  // rank. Those flagged count as detections if `are_found`.
  std::vector<double> flags() const;
  void adopt_change(std::span<const double> flags, bool are_found);
  // After an agreed change.
  void clear_decision();
  // Steps under another scheme or with other members: judges afresh, with the
  // known stragglers or without.
  void restart(StragglerDetector::Known known) { detector_.restart(known); }
  // Elastic: the flagged workers leave; the others' windows go on.
  void forget_flagged();

  void visit_state(StateVisitor& visitor);

 private:
  void flag(const Ranks& active);

  int workers_;
  SwitchPolicy kind_;
  StragglerDetector detector_;
  std::vector<int64_t> flagged_;
  int64_t wants_change_ = 0, detections_ = 0;
};

}  // namespace syncopate
