// Every key of a scheme has an effect: a run with another value ends with
// different parameters or statistics. Finds options that are parsed and
// ignored, and constants that the code uses instead.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "config/keys.h"
#include "input_files.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

constexpr int kWorkers = 8;

struct Change {
  std::string key, from, to;
  std::vector<std::string> beside = {};  // "key=value", needed by the key
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"optimizer.lr", "0.1", "0.12"},
      {"optimizer.momentum", "0.9", "0.5"},
      {"optimizer.weight_decay", "0", "0.01"},
      {"optimizer.clip_norm", "0", "0.3"},
      {"sync.wire", "fp32", "bf16"},
      {"bsp.batchnorm", "local", "averaged"},
      {"bsp.clip", "reduced", "local", {"optimizer.clip_norm=0.5"}},
      {"ds_sync.radices", "auto", "2 4"},
      {"ds_sync.group", "0", "2"},
      {"ds_sync.place", "before_forward", "after_update"},
      {"ds_sync.batchnorm",
       "averaged",
       "local",
       {"ds_sync.place=after_update"}},
      {"ds_sync.restart", "epoch", "never"},
      {"ds_sync.final_average", "no", "yes"},
      {"local_sgd.steps", "5", "7"},
      {"local_sgd.outer", "average", "momentum"},
      {"local_sgd.outer_lr", "0.7", "0.9", {"local_sgd.outer=momentum"}},
      {"local_sgd.outer_momentum", "0.9", "0.5", {"local_sgd.outer=momentum"}},
      {"local_sgd.outer_nesterov", "no", "yes", {"local_sgd.outer=momentum"}},
      {"local_sgd.start", "0", "4 steps"},
      {"local_sgd.batchnorm", "averaged", "local", {"local_sgd.steps=23"}},
      {"easgd.steps", "3", "4"},
      {"easgd.beta", "0.9", "0.5"},
      {"power_sgd.rank", "1", "2"},
      {"power_sgd.warm_start", "yes", "no"},
      {"asp.compensation", "none", "per_worker"},
      {"asp.compensation", "per_worker", "per_key"},
      {"asp.lambda", "0.04", "0.4", {"asp.compensation=per_worker"}},
      {"asp.pull", "after_push", "before_step"},
      {"asp.batchnorm", "local", "shared"},
      {"ssp.bound", "0", "3"},
      {"esync.global_lr", "1", "0.8"},
      {"esync.epsilon_s", "0", "0.9"},
      {"esync.epsilon_steps", "0", "0.9"},
      {"esync.query", "blocking", "non_blocking"},
      {"esync.batchnorm", "averaged", "local"},
      {"sync_switch.order", "10", "01"},
      {"sync_switch.fractions", "0.5 0.5", "0.25 0.75"},
      {"sync_switch.momentum_rule", "keep", "zero"},
      {"choco.gamma", "0.5", "0.4"},
      {"dgc.warmup_ratios", "none", "0.25 0.5"},
      {"dgc.warmup", "0", "12 steps", {"dgc.warmup_ratios=0.25 0.5"}},
      {"dgc.mask_momentum", "yes", "no"},
      {"dgc.clip", "0", "0.3"},
      {"compress.kind", "qsgd", "top_k"},
      {"compress.ratio", "0.5", "0.75", {"compress.kind=top_k"}},
      {"compress.bits", "4", "3", {"compress.kind=qsgd"}},
      {"compress.levels", "0", "5", {"compress.kind=qsgd"}},
      {"compress.biased", "no", "yes", {"compress.kind=qsgd"}},
      {"topology.kind", "ring", "complete"},
      {"topology.group", "2", "4", {"topology.kind=hierarchical"}},
      {"topology.between", "ring", "complete", {"topology.kind=hierarchical"}},
  };
  return all;
}

// Keys whose effect a toy run does not show.
const std::set<std::string>& exempt() {
  static const std::set<std::string> keys = {
      // Keys that only affect transport and placement; results are the same.
      "sync.scheme", "sync.transport", "sync.collective", "sync.bucket_mb",
      "sync.tables", "asp.servers", "asp.record", "asp.replay",
      // Keys that the program evaluates before it creates a scheme.
      "sync_switch.train_steps", "sync_switch.overrides",
      "sync_switch.lr_rule"};
  return keys;
}

const std::set<std::string>& sections_of_schemes() {
  static const std::set<std::string> sections = {
      "sync", "bsp",   "ds_sync", "local_sgd", "easgd",    "power_sgd", "asp",
      "ssp",  "esync", "choco",   "dgc",       "compress", "topology"};
  return sections;
}

std::vector<std::string> schemes_using(const Key& key) {
  for (const UsedWhen& rule : key.used_when)
    if (rule.key == "sync.scheme") return rule.values;
  std::vector<std::string> all;
  for (const SchemeInfo& info : scheme_table()) all.push_back(info.keyword);
  return all;
}

struct Outcome {
  std::vector<std::vector<double>> parameters, buffers;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const std::string& scheme,
                   const Change& change,
                   const std::string& value) {
  std::map<std::string, std::string> settings = {
      {"run.steps", "23"},
      {"data.kind", "synthetic_images"},
      {"sync.scheme", scheme}};
  if (scheme == "dgc") settings["compress.kind"] = "top_k";
  if (scheme == "sync_switch") {
    settings["sync_switch.order"] = "10";
    settings["sync_switch.fractions"] = "0.5 0.5";
  }
  for (const std::string& setting : change.beside)
    settings[setting.substr(0, setting.find('='))] =
        setting.substr(setting.find('=') + 1);
  settings[change.key] = value;
  std::vector<std::string> overrides;
  for (const auto& [key, text] : settings)
    overrides.push_back("--" + key + "=" + text);
  const ParsedInput input = parse_text("", overrides);
  EXPECT_EQ(input.errors, std::vector<std::string>{});

  test::ToyRun run;
  run.sync = input.options.sync;
  run.optimizer = input.options.optimizer;
  run.schedule = input.options.schedule;
  if (scheme == "power_sgd")
    run.shapes = {Shape{8, 6}, Shape{5, 3, 3}, Shape{7}};
  run.steps = 23;  // no whole number of rounds, nor of epochs
  run.steps_per_epoch = 5;
  run.step_s = {1, 1.7, 2.9, 1.3, 1.1, 2.1, 1.9, 1.2};
  run.start = [](int, int64_t i) {
    return 0.5f + 0.3f * std::sin(static_cast<float>(1 + i * i));
  };
  const test::ToyModel model =
      run.shapes.empty() ? test::ToyModel(run.tensors, run.num_buffers)
                         : test::ToyModel(run.shapes);
  EXPECT_EQ(scheme_obstacle({run.sync, run.optimizer, model.parameters(),
                             kWorkers, run.steps}),
            "");
  const test::ToyResult result = test::train_toy(kWorkers, run);
  return {result.parameters, result.buffers};
}

TEST(Constants, EachChangesTheResult) {
  for (const Change& change : changes()) {
    const Key* key = find_key(change.key);
    ASSERT_NE(key, nullptr) << change.key;
    for (const std::string& scheme : schemes_using(*key)) {
      SCOPED_TRACE(scheme + ": " + change.key + ", " + change.from + " or " +
                   change.to);
      const Outcome from = outcome_of(scheme, change, change.from);
      EXPECT_EQ(from, outcome_of(scheme, change, change.from));
      EXPECT_NE(from, outcome_of(scheme, change, change.to));
    }
  }
}

// A new key of a scheme belongs into the table above.
TEST(Constants, NoneIsLeftOut) {
  for (const Key& key : key_table()) {
    if (!sections_of_schemes().contains(key.section())) continue;
    const bool is_changed = std::any_of(
        changes().begin(), changes().end(),
        [&](const Change& change) { return change.key == key.name; });
    EXPECT_TRUE(is_changed != exempt().contains(key.name)) << key.name;
  }
}

}  // namespace
}  // namespace syncopate
