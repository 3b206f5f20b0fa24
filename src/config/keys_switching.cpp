// The keys of [sync_switch].
#include "config/key_sections.h"

namespace syncopate {
namespace {

const UsedWhen kSwitching = {"sync.scheme", {"sync_switch"}};

template <auto kMember>
Target at(Options& options) {
  return &(options.sync.sync_switch.*kMember);
}

// What decides during the run: policies and plateaus.
std::vector<Key> online_switching_keys() {
  const std::vector<UsedWhen> used = {kSwitching};
  const std::vector<UsedWhen> on_line = {
      kSwitching, {"sync_switch.policy", {"greedy", "elastic"}}};
  const std::vector<UsedWhen> on_plateau = {
      kSwitching, {"sync_switch.plateau", {"eval_loss", "eval_metric"}}};
  return {
      {.name = "sync_switch.policy",
       .target = at<&SyncSwitchOptions::policy>,
       .doc = "What is done about stragglers in bulk-synchronous phases: "
              "nothing, switch to asp while they last, or go on without them.",
       .choices = {"fixed", "greedy", "elastic"},
       .used_when = used},
      {.name = "sync_switch.window",
       .target = at<&SyncSwitchOptions::window>,
       .doc = "Steps over which a worker's throughput is measured.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.threshold",
       .target = at<&SyncSwitchOptions::threshold>,
       .doc = "A straggler's throughput is below the mean by more than so "
              "many standard deviations.",
       .low = 0,
       .used_when = on_line},
      {.name = "sync_switch.min_slowdown",
       .target = at<&SyncSwitchOptions::min_slowdown>,
       .doc = "A straggler's throughput is below the mean by more than this "
              "share of it.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = on_line,
       .formerly = "0"},
      {.name = "sync_switch.consecutive",
       .target = at<&SyncSwitchOptions::consecutive>,
       .doc = "Windows in a row in which a worker must be slow before "
              "something is done, and not slow before it is undone.",
       .low = 1,
       .used_when = on_line},
      {.name = "sync_switch.plateau",
       .target = at<&SyncSwitchOptions::plateau>,
       .doc = "Ends a phase early once evaluations stop improving: their loss, "
              "or their metric (accuracy, F1, AUC). Without fractions and "
              "train_steps only this ends a phase.",
       .choices = {"none", "eval_loss", "eval_metric"},
       .used_when = used},
      {.name = "sync_switch.patience",
       .target = at<&SyncSwitchOptions::patience>,
       .doc = "Evaluations in a row without an improvement that end a phase.",
       .low = 1,
       .used_when = on_plateau},
      {.name = "sync_switch.min_change",
       .target = at<&SyncSwitchOptions::min_change>,
       .doc = "Changes of the metric up to this size are no improvement.",
       .low = 0,
       .used_when = on_plateau},
  };
}

}  // namespace

std::vector<Key> switching_keys() {
  const std::vector<UsedWhen> used = {kSwitching};
  std::vector<Key> keys = {
      {.name = "sync_switch.order",
       .target = at<&SyncSwitchOptions::order>,
       .doc = "Schemes, a phase each; 1 stands for bsp and 0 for asp, so 10 "
              "is bsp, then asp. Must be given.",
       .zero_word = "none",
       .used_when = used},
      {.name = "sync_switch.fractions",
       .target = at<&SyncSwitchOptions::fractions>,
       .doc = "Share of the run's work of each phase; the sum is 1.",
       .low = 0,
       .high = 1,
       .zero_word = "none",
       .used_when = used},
      {.name = "sync_switch.train_steps",
       .target = at<&SyncSwitchOptions::train_steps>,
       .doc = "Instead of fractions: where each phase ends, counted as "
              "Sync-Switch does (a bulk-synchronous step and an asynchronous "
              "update are 1 each).",
       .low = 0,
       .zero_word = "none",
       .used_when = used},
      {.name = "sync_switch.overrides",
       .target = at<&SyncSwitchOptions::overrides>,
       .doc = "Keys that differ in a phase: 2:optimizer.lr=0.05; of "
              "optimizer, schedule, sync, compress, topology and the schemes.",
       .zero_word = "none",
       .used_when = used},
      {.name = "sync_switch.lr_rule",
       .target = at<&SyncSwitchOptions::lr_rule>,
       .doc = "linear: optimizer.lr is the rate of one mini-batch, and that "
              "of a phase that averages gradients is workers times it; none: "
              "as it is.",
       .choices = {"linear", "none"},
       .used_when = used},
      {.name = "sync_switch.momentum_rule",
       .target = at<&SyncSwitchOptions::momentum_rule>,
       .doc = "Momentum in phases behind a switch that do not average "
              "gradients: kept (published as best), zero, divided by the "
              "workers, or rising to the whole.",
       .choices = {"keep", "zero", "scaled", "ramp_linear", "ramp_doubling"},
       .used_when = used},
      {.name = "sync_switch.momentum_ramp",
       .target = at<&SyncSwitchOptions::momentum_ramp>,
       .doc = "Length of the rise; must be given.",
       .low = 0,
       .used_when = {kSwitching,
                     {"sync_switch.momentum_rule",
                      {"ramp_linear", "ramp_doubling"}}}},
  };
  for (Key& key : online_switching_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace syncopate
