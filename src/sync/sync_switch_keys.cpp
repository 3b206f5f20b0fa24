// The keys of [sync_switch], and its row of the table of schemes.
#include "keys/key.h"
#include "sync/kinds.h"
#include "sync/sync_switch.h"

namespace syncopate {
namespace {

// Keys of the decisions made during the run: policies and plateaus.
Keys online_keys() {
  const std::vector<UsedWhen> on_line = {
      {"sync_switch.policy", {"greedy", "elastic"}}};
  const std::vector<UsedWhen> on_plateau = {
      {"sync_switch.plateau", {"eval_loss", "eval_metric"}}};
  return {
      {.name = "sync_switch.policy",
       .place = &SyncSwitchOptions::policy,
       .doc = "Response to stragglers in bulk-synchronous phases: none, "
              "switch to asp while they last, or continue without them."},
      {.name = "sync_switch.window",
       .place = &SyncSwitchOptions::window,
       .doc = "Steps over which a worker's throughput is measured.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.threshold",
       .place = &SyncSwitchOptions::threshold,
       .doc = "A straggler's throughput is below the mean by more than "
              "this many standard deviations. With 1 or more, as published, "
              "neither one of two workers nor a slow half of all is ever a "
              "straggler.",
       .low = 0,
       .used_when = on_line},
      {.name = "sync_switch.min_slowdown",
       .place = &SyncSwitchOptions::min_slowdown,
       .doc = "A straggler's throughput is below the mean by more than "
              "this fraction of the mean.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = on_line,
       .formerly = "0"},
      {.name = "sync_switch.consecutive",
       .place = &SyncSwitchOptions::consecutive,
       .doc = "Number of successive windows in which a worker must be "
              "slow before the policy acts, and normal before its "
              "action is undone.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.plateau",
       .place = &SyncSwitchOptions::plateau,
       .doc = "Ends a phase early once evaluations stop improving, judged by "
              "their loss or their metric (accuracy, F1, AUC). Without "
              "fractions and train_steps, only this ends a phase."},
      {.name = "sync_switch.patience",
       .place = &SyncSwitchOptions::patience,
       .doc = "Successive evaluations without improvement that end a "
              "phase.",
       .low = 1,
       .used_when = on_plateau},
      {.name = "sync_switch.min_change",
       .place = &SyncSwitchOptions::min_change,
       .doc = "An evaluation counts as an improvement only if it is better "
              "by more than this.",
       .low = 0,
       .used_when = on_plateau},
  };
}

Keys sync_switch_keys() {
  Keys keys = {
      {.name = "sync_switch.order",
       .place = &SyncSwitchOptions::order,
       .doc = "Schemes of the phases. 1 stands for bsp and 0 for asp; none: "
              "10, which is bsp, then asp.",
       .zero_word = "none"},
      {.name = "sync_switch.fractions",
       .place = &SyncSwitchOptions::fractions,
       .doc = "Fraction of the run's work in each phase; they sum to 1. If "
              "neither this key nor order, train_steps or plateau is given: "
              "0.0625, 0.9375, as in the paper.",
       .low = 0,
       .high = 1,
       .zero_word = "none"},
      {.name = "sync_switch.train_steps",
       .place = &SyncSwitchOptions::train_steps,
       .doc = "Alternative to fractions: the end of each phase, counted "
              "as in Sync-Switch (a bulk-synchronous step and an "
              "asynchronous update count as 1 each).",
       .low = 0,
       .zero_word = "none"},
      {.name = "sync_switch.overrides",
       .place = &SyncSwitchOptions::overrides,
       .doc = "Keys that differ in a phase, such as "
              "2:optimizer.lr=0.05: sync.collective, sync.wire and keys of "
              "optimizer, schedule, compress, topology and of the phase's "
              "scheme.",
       .zero_word = "none"},
      {.name = "sync_switch.lr_rule",
       .place = &SyncSwitchOptions::lr_rule,
       .doc = "linear: optimizer.lr is the rate for one mini-batch, and "
              "phases that average gradients multiply it by the number "
              "of workers; t2t: in addition, other phases divide it by the "
              "square root of that number, as Tensor2Tensor does; none: the "
              "rate is used unchanged. local_sgd counts as a phase that does "
              "not average gradients, even before local_sgd.start."},
      {.name = "sync_switch.momentum_rule",
       .place = &SyncSwitchOptions::momentum_rule,
       .doc = "Momentum after a switch from averaged to single gradients, "
              "until they are averaged again: kept (best according to the "
              "paper), zero, divided by the number of workers, or rising to "
              "its full value. All but keep need such a switch."},
      {.name = "sync_switch.momentum_ramp",
       .place = &SyncSwitchOptions::momentum_ramp,
       .doc = "Length of the rise; required.",
       .low = 0,
       .used_when = {{"sync_switch.momentum_rule",
                      {"ramp_linear", "ramp_doubling"}}}},
  };
  append(keys, online_keys());
  return within(&SyncOptions::sync_switch, std::move(keys));
}

}  // namespace

SchemeInfo sync_switch_scheme() {
  return {.keyword = "sync_switch",
          .description =
              "Sync-Switch: one scheme after another; as published, "
              "bsp then asp",
          .make = &make<SyncSwitch>,
          .check = &check_sync_switch,
          .keys = &sync_switch_keys,
          .defaults = {{"sync_switch.order", "10"},
                       {"sync_switch.fractions",
                        "0.0625 0.9375",
                        {"sync_switch.order", "sync_switch.train_steps",
                         "sync_switch.plateau"}}},
          .is_composite = true,
          .uses_collectives = true};
}

}  // namespace syncopate
