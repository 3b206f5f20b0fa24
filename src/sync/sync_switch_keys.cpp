// The keys of [sync_switch].
#include "keys/key.h"
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
       .doc = "What is done about stragglers in bulk-synchronous phases: "
              "nothing, switch to asp while they last, or go on without them."},
      {.name = "sync_switch.window",
       .place = &SyncSwitchOptions::window,
       .doc = "Steps over which a worker's throughput is measured.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.threshold",
       .place = &SyncSwitchOptions::threshold,
       .doc = "A straggler's throughput is below the mean by more than so "
              "many standard deviations.",
       .low = 0,
       .used_when = on_line},
      {.name = "sync_switch.min_slowdown",
       .place = &SyncSwitchOptions::min_slowdown,
       .doc = "A straggler's throughput is below the mean by more than this "
              "share of it.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = on_line,
       .formerly = "0"},
      {.name = "sync_switch.consecutive",
       .place = &SyncSwitchOptions::consecutive,
       .doc = "Windows in a row in which a worker must be slow before "
              "something is done, and not slow before it is undone.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.plateau",
       .place = &SyncSwitchOptions::plateau,
       .doc = "Ends a phase early once evaluations stop improving: their loss, "
              "or their metric (accuracy, F1, AUC). Without fractions and "
              "train_steps only this ends a phase."},
      {.name = "sync_switch.patience",
       .place = &SyncSwitchOptions::patience,
       .doc = "Evaluations in a row without an improvement that end a phase.",
       .low = 1,
       .used_when = on_plateau},
      {.name = "sync_switch.min_change",
       .place = &SyncSwitchOptions::min_change,
       .doc = "Changes of the metric up to this size are no improvement.",
       .low = 0,
       .used_when = on_plateau},
  };
}

}  // namespace

Keys sync_switch_keys() {
  Keys keys = {
      {.name = "sync_switch.order",
       .place = &SyncSwitchOptions::order,
       .doc = "Schemes, a phase each; 1 stands for bsp and 0 for asp, so 10 "
              "is bsp, then asp. Must be given.",
       .zero_word = "none"},
      {.name = "sync_switch.fractions",
       .place = &SyncSwitchOptions::fractions,
       .doc = "Share of the run's work of each phase; the sum is 1.",
       .low = 0,
       .high = 1,
       .zero_word = "none"},
      {.name = "sync_switch.train_steps",
       .place = &SyncSwitchOptions::train_steps,
       .doc = "Instead of fractions: where each phase ends, counted as "
              "Sync-Switch does (a bulk-synchronous step and an asynchronous "
              "update are 1 each).",
       .low = 0,
       .zero_word = "none"},
      {.name = "sync_switch.overrides",
       .place = &SyncSwitchOptions::overrides,
       .doc = "Keys that differ in a phase: 2:optimizer.lr=0.05; of "
              "optimizer, schedule, sync, compress, topology and the schemes.",
       .zero_word = "none"},
      {.name = "sync_switch.lr_rule",
       .place = &SyncSwitchOptions::lr_rule,
       .doc = "linear: optimizer.lr is the rate of one mini-batch, and that "
              "of a phase that averages gradients is workers times it; none: "
              "as it is."},
      {.name = "sync_switch.momentum_rule",
       .place = &SyncSwitchOptions::momentum_rule,
       .doc = "Momentum in phases behind a switch that do not average "
              "gradients: kept (published as best), zero, divided by the "
              "workers, or rising to the whole."},
      {.name = "sync_switch.momentum_ramp",
       .place = &SyncSwitchOptions::momentum_ramp,
       .doc = "Length of the rise; must be given.",
       .low = 0,
       .used_when = {{"sync_switch.momentum_rule",
                      {"ramp_linear", "ramp_doubling"}}}},
  };
  append(keys, online_keys());
  return within(&SyncOptions::sync_switch, std::move(keys));
}

}  // namespace syncopate
