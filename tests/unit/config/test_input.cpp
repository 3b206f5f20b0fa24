// Good inputs: values, overrides, echo, what the world decides, resumption.
#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/value.h"
#include "config/world.h"
#include "input_files.h"

namespace syncopate {
namespace {

const std::string kGood =
    "[run]\nsteps = 10\n[data]\nkind = synthetic_images\n";

TEST(Input, ValuesOfEveryType) {
  const ParsedInput input = parse_text(
      "\xEF\xBB\xBF# a comment\r\n; another\r\n"
      "[ run ]   # the run\r\n"
      "  epochs=2.5\r\nname = a#b\t# c\r\nworkers = 3\r\nstop_at = 1 epoch\r\n"
      "log_every = 1e1 steps\r\n"
      "[data]\nkind = synthetic_images\naugment = flip crop\n"
      "synthetic_seed = 9\n"
      "[run]\nthreads = auto\n"  // a section may come twice
      "[optimizer]\nlr = 1e-2\nnesterov = true\n"
      "[schedule]\nkind = multistep\nmilestones = 60, 120, 160 epochs\n"
      "[compute]\nspeed = 1, 0.5 , 2\n"
      "[eval]\nevery = 2.5epochs");
  ASSERT_EQ(input.errors, Lines{});
  const Options& options = input.options;
  EXPECT_EQ(options.run.epochs, 2.5);
  EXPECT_EQ(options.run.name, "a#b");
  EXPECT_EQ(options.run.workers, 3);
  EXPECT_EQ(options.run.threads, 0);
  EXPECT_EQ(options.run.stop_at.value, 1);
  EXPECT_TRUE(options.run.stop_at.in_epochs);
  EXPECT_EQ(options.run.log_every.value, 10);
  EXPECT_FALSE(options.run.log_every.in_epochs);
  EXPECT_EQ(options.data.augment, (Lines{"flip", "crop"}));
  EXPECT_EQ(options.data.synthetic_seed, 9u);
  EXPECT_EQ(options.optimizer.lr, 0.01);
  EXPECT_TRUE(options.optimizer.nesterov);
  ASSERT_EQ(options.schedule.milestones.size(), 3u);
  EXPECT_EQ(options.schedule.milestones[1].value, 120);
  EXPECT_TRUE(options.schedule.milestones[0].in_epochs);
  EXPECT_EQ(options.compute.speed, (std::vector<double>{1, 0.5, 2}));
  EXPECT_EQ(options.eval.every.value, 2.5);
  EXPECT_EQ(input.resolved.at("run.log_every"), "10 steps");
  EXPECT_EQ(input.resolved.at("run.threads"), "auto");
  EXPECT_EQ(input.resolved.at("schedule.milestones"),
            "60 epochs, 120 epochs, 160 epochs");
  EXPECT_EQ(input.resolved.at("compute.speed"), "1 0.5 2");
  EXPECT_EQ(input.resolved.at("optimizer.lr"), "0.01");
  EXPECT_FALSE(input.resolved.contains("data.path"));
}

TEST(Input, CommandLineWins) {
  const ParsedInput input =
      parse_text(kGood + "[optimizer]\nlr = 0.3\n",
                 {"--optimizer.lr=0.7", "--run.seed = 4"});
  ASSERT_EQ(input.errors, Lines{});
  EXPECT_EQ(input.options.optimizer.lr, 0.7);
  EXPECT_EQ(input.options.run.seed, 4);
  EXPECT_EQ(input.given.at("optimizer.lr"), "command line");
  EXPECT_TRUE(input.given.at("run.steps").ends_with("in.ini:2"));
  EXPECT_FALSE(input.given.contains("run.epochs"));
}

TEST(Input, EchoIsARunnableInput) {
  const ParsedInput input = parse_text(
      kGood +
      "augment = rotate crop\nnoise = 0.1\n"
      "[schedule]\nkind = multistep\nmilestones = 3 step, 1.5 epochs\n"
      "warmup = 2\n[optimizer]\nlr = 0.30000000000000004\n"
      "[run]\nstop_at = 1 epoch\n");
  ASSERT_EQ(input.errors, Lines{});
  const std::string echo = echo_input(input);
  const ParsedInput again = parse_text(echo);
  EXPECT_EQ(again.errors, Lines{});
  EXPECT_EQ(again.resolved, input.resolved);
  EXPECT_EQ(again.options.optimizer.lr, 0.30000000000000004);
  EXPECT_EQ(echo_input(again), echo);
  EXPECT_NE(echo.find("\n[run]\nname = {scheme}-seed{seed}\n"),
            std::string::npos);
  EXPECT_NE(echo.find("milestones = 3 steps, 1.5 epochs\n"), std::string::npos);
}

TEST(Input, WorldOfOneProcess) {
  ParsedInput alone = parse_text(kGood + "[compute]\nspeed = 1 2\n");
  ASSERT_EQ(alone.errors, Lines{});
  check_world(alone, 1);
  EXPECT_EQ(alone.errors, (Lines{alone.given.at("compute.speed") +
                                 ": compute.speed: has 2 numbers for 1 worker "
                                 "(run.workers = auto), expected one, or "
                                 "run.workers = 2"}));
  ParsedInput two =
      parse_text(kGood + "[compute]\nspeed = 1 2\n", {"--run.workers=2"});
  check_world(two, 1);
  EXPECT_EQ(two.errors, Lines{});
  EXPECT_TRUE(two.resolved.contains("network.latency_us"));
}

TEST(Input, WorldOfRanks) {
  ParsedInput input =
      parse_text(kGood, {"--run.workers=2", "--network.latency_us=5"});
  ASSERT_EQ(input.errors, Lines{});
  check_world(input, 3);
  EXPECT_EQ(input.errors,
            (Lines{"command line: run.workers: is 2, but there are 3 MPI "
                   "ranks, one per worker; expected auto or 3",
                   "command line: network.latency_us: is used by workers in "
                   "one process, not by 3 MPI ranks"}));
  ParsedInput good = parse_text(kGood, {"--run.workers=3"});
  good.options.network.servers = ServerPlace::kApart;
  check_world(good, 3);
  EXPECT_EQ(good.options.network.servers, ServerPlace::kOnWorkers);
  EXPECT_EQ(good.errors, Lines{});
  EXPECT_FALSE(good.resolved.contains("network.latency_us"));
  EXPECT_FALSE(good.resolved.contains("compute.speed"));
}

Lines conflicts(const Lines& before, const Lines& after) {
  const std::string cosine = kGood + "[schedule]\nkind = cosine\n";
  const ParsedInput saved = parse_text(cosine, before);
  const ParsedInput now = parse_text(cosine, after);
  EXPECT_EQ(saved.errors, Lines{});
  EXPECT_EQ(now.errors, Lines{});
  return resume_conflicts(saved.resolved, now.resolved);
}

TEST(Resume, WhatMayChange) {
  EXPECT_EQ(conflicts({}, {"--run.stop_at=5", "--run.time_limit_s=60",
                           "--run.target=loss <= 0.3", "--run.log_every=7",
                           "--run.directory=/tmp", "--run.name=x",
                           "--data.prefetch=9", "--checkpoint.every=3",
                           "--checkpoint.keep=5", "--checkpoint.resume=none"}),
            Lines{});
}

TEST(Resume, WhatMayNot) {
  EXPECT_EQ(
      conflicts({"--run.seed=3"},
                {"--run.seed=4", "--data.batch=64", "--data.augment=crop",
                 "--network.mbit_s=10"}),
      (Lines{"run.seed: was 3, now 4: not allowed to change on resume",
             "data.batch: was 128, now 64: not allowed to change on resume",
             "data.augment: was none, now crop: not allowed to change on "
             "resume",
             "data.crop_pad: was not used, now 4: not allowed to change on "
             "resume",
             "data.fill: was not used, now mean: not allowed to change on "
             "resume",
             "network.mbit_s: was 0, now 10: not allowed to change on "
             "resume"}));
}

TEST(Resume, KeysThatFollowFromOthersAreOneLine) {
  const Lines all = conflicts({"--data.augment=none"},
                              {"--data.augment=crop, rotate", "--run.seed=4"});
  EXPECT_EQ(condensed(all),
            (Lines{all[0], all[1],
                   "used by only one of the two inputs: data.crop_pad, "
                   "data.fill, data.rotate_degrees"}));
  EXPECT_EQ(condensed({all[0]}), Lines{all[0]});
}

TEST(Resume, LengthNeedsAHorizonOfItsOwn) {
  EXPECT_EQ(conflicts({"--run.steps=10"}, {"--run.steps=20"}),
            (Lines{"run.steps: was 10, now 20: not allowed to change on "
                   "resume, because schedule.horizon = 0 lays the schedule out "
                   "over the run's length"}));
  EXPECT_EQ(conflicts({"--schedule.horizon=30", "--run.steps=10"},
                      {"--schedule.horizon=30", "--run.steps=20"}),
            Lines{});
  // The lengths of a constant rate do not matter.
  EXPECT_EQ(conflicts({"--schedule.kind=constant", "--run.steps=10"},
                      {"--schedule.kind=constant", "--run.steps=20"}),
            Lines{});
}

TEST(Resume, LengthThatASchemeDependsOn) {
  const auto expect = [](Lines keys, const std::string& because) {
    keys.push_back("--schedule.kind=constant");
    keys.push_back("--run.workers=4");
    Lines longer = keys;
    keys.push_back("--run.steps=10");
    longer.push_back("--run.steps=20");
    EXPECT_EQ(conflicts(keys, longer),
              because.empty() ? Lines{}
                              : Lines{"run.steps: was 10, now 20: not allowed "
                                      "to change on resume, because " +
                                      because});
  };
  const Lines phases = {"--sync.scheme=sync_switch", "--sync_switch.order=10"};
  Lines divided = phases;
  divided.push_back("--sync_switch.fractions=0.5,0.5");
  expect(divided, "sync_switch.fractions divides the run's length into phases");
  Lines plateau = phases;
  plateau.push_back("--sync_switch.plateau=eval_loss");
  expect(plateau,
         "sync_switch.plateau leaves the first phase the run's whole length");
  Lines scheduled = plateau;
  scheduled.push_back("--sync_switch.overrides=2:schedule.kind=cosine");
  expect(scheduled,
         "sync_switch.overrides gives a phase a schedule of its own");
  expect({"--sync.scheme=ds_sync"}, "");
  expect({"--sync.scheme=ds_sync", "--ds_sync.final_average=yes"},
         "ds_sync.final_average changes the model after the last step");
  expect({"--sync.scheme=esync"}, "esync ends a round after the last step");
  expect({"--sync.scheme=sync_switch", "--sync_switch.order=esync"},
         "esync ends a round after the last step");
  expect({"--sync.scheme=sync_switch", "--sync_switch.order=ds_sync",
          "--sync_switch.overrides=1:ds_sync.final_average=yes"},
         "ds_sync.final_average changes the model after the last step");
  expect({"--sync.scheme=asp"}, "");
  expect({"--sync.scheme=asp", "--asp.record=yes"},
         "asp.record records the order of the whole run");
}

// run.virtual_limit_s and the steps that it became.
TEST(Resume, VirtualTimeGoesWithItsSteps) {
  const Lines limit = {"--run.virtual_limit_s=3", "--run.steps=7"};
  const Lines longer = {"--run.virtual_limit_s=4", "--run.steps=9"};
  const std::string why =
      ": not allowed to change on resume, because schedule.horizon = 0 lays "
      "the schedule out over the run's length";
  EXPECT_EQ(conflicts(limit, limit), Lines{});
  EXPECT_EQ(conflicts(limit, longer),
            (Lines{"run.steps: was 7, now 9" + why,
                   "run.virtual_limit_s: was 3, now 4" + why}));
  Lines before = limit, after = longer;
  before.push_back("--schedule.kind=constant");
  after.push_back("--schedule.kind=constant");
  EXPECT_EQ(conflicts(before, after), Lines{});
  // MPI ranks go on to the same step without a limit.
  const ParsedInput saved = parse_text(kGood, limit);
  SavedInput taken{saved.resolved, SavedInput::Take::kAll};
  forget_virtual_time(taken.values);
  ParsedInput now = parse_text("[data]\nkind = synthetic_images\n", {}, &taken);
  check_world(now, 2);
  EXPECT_EQ(now.errors, Lines{});
  EXPECT_EQ(now.options.run.steps, 7);
  EXPECT_EQ(now.options.run.virtual_limit_s, 0);
  EXPECT_EQ(resume_conflicts(saved.resolved, now.resolved), Lines{});
}

TEST(Input, VirtualTimeIsALengthByItself) {
  const std::string text =
      "[run]\nvirtual_limit_s = 3\n[data]\n"
      "kind = synthetic_images\n";
  EXPECT_EQ(parse_text(text).errors, Lines{});
  EXPECT_EQ(parse_text(text, {"--run.epochs=2"}).errors.size(), 1u);
  EXPECT_EQ(parse_text(text, {"--run.epochs=0"}).errors, Lines{});
  for (const char* wrong : {"-1", "nan", "inf", "1e400", "x"})
    EXPECT_EQ(
        parse_text(text, {std::string("--run.virtual_limit_s=") + wrong})
            .errors,
        (Lines{fmt::format("command line: run.virtual_limit_s: expected a "
                           "number >= 0, found \"{}\"",
                           wrong)}));
  ParsedInput ranks = parse_text(text);
  check_world(ranks, 2);
  ASSERT_EQ(ranks.errors.size(), 1u);
  EXPECT_NE(ranks.errors[0].find("(run.target)"), std::string::npos);
}

TEST(Resume, BetweenWorldsVirtualCostsAreNotCompared) {
  ParsedInput saved = parse_text(kGood, {"--compute.step_s=2"});
  ParsedInput now = parse_text(kGood);
  check_world(now, 2);
  EXPECT_EQ(resume_conflicts(saved.resolved, now.resolved), Lines{});
}

TEST(Resume, KeysOfAnotherVersion) {
  EXPECT_EQ(resume_conflicts({{"sync.period", "4"}}, {}),
            (Lines{"sync.period: was 4, now not used: not allowed to change "
                   "on resume"}));
}

// Keys that are not given have the saved run's values, even if the default has
// changed since.
TEST(Resume, KeysThatAreNotGivenAreTaken) {
  const ParsedInput then =
      parse_text(kGood, {"--optimizer.lr=0.3", "--optimizer.momentum=0.8",
                         "--run.log_every=7", "--run.workers=3"});
  SavedInput saved{then.resolved, SavedInput::Take::kAll};
  const ParsedInput now = parse_text(kGood, {}, &saved);
  EXPECT_EQ(now.errors, Lines{});
  EXPECT_EQ(now.options.optimizer.momentum, 0.8);
  EXPECT_EQ(now.options.run.workers, 3);
  EXPECT_EQ(now.options.run.log_every.value, Options().run.log_every.value)
      << "what may change is today's";
  EXPECT_EQ(now.taken.at("optimizer.momentum"), "0.8");
  EXPECT_FALSE(now.given.contains("optimizer.momentum"));
  // Given keys take precedence and are refused by name if they differ.
  const ParsedInput other =
      parse_text(kGood, {"--optimizer.momentum=0.7"}, &saved);
  EXPECT_EQ(resume_conflicts(saved.values, other.resolved).size(), 1u);
  // If only the model of a checkpoint is used, only the model's keys are taken.
  saved.take = SavedInput::Take::kModel;
  EXPECT_EQ(parse_text(kGood, {}, &saved).options.optimizer.momentum,
            Options().optimizer.momentum);
}

// Of [stragglers], only what names workers may change with their number.
TEST(Resume, WhatMayChangeWithTheNumberOfWorkers) {
  const auto conflicts_of = [](const Lines& before, const Lines& after) {
    return resume_conflicts(parse_text(kGood, before).resolved,
                            parse_text(kGood, after).resolved,
                            Workers::kMayDiffer);
  };
  const std::string uniform = "--stragglers.random=uniform";
  EXPECT_EQ(conflicts_of({"--run.workers=4", "--stragglers.factor=1,1,1,2"},
                         {"--run.workers=2", "--stragglers.factor=3,1"}),
            Lines{});
  EXPECT_EQ(conflicts_of({"--run.workers=4", "--stragglers.delay_ms=5",
                          "--stragglers.delay_workers=3"},
                         {"--run.workers=2", "--stragglers.delay_ms=7",
                          "--stragglers.delay_workers=1"}),
            Lines{});
  EXPECT_EQ(
      conflicts_of({"--run.workers=4", uniform, "--stragglers.random_ms=10"},
                   {"--run.workers=2", uniform, "--stragglers.random_ms=50"}),
      (Lines{"stragglers.random_ms: was 10, now 50: not allowed to change on "
             "resume"}));
}

// A key that is younger than the run has the value of before; one that the
// run's kinds did not use is another matter.
TEST(Resume, KeysThatTheRunDidNotKnow) {
  const ParsedInput now = parse_text(kGood);
  SavedInput saved{now.resolved, SavedInput::Take::kAll};
  ASSERT_EQ(saved.values.erase("optimizer.weight_decay"), 1u);
  EXPECT_EQ(parse_text(kGood, {}, &saved).taken.size(), 0u);
  EXPECT_EQ(resume_conflicts(saved.values, now.resolved), Lines{});
  EXPECT_EQ(
      resume_conflicts(
          saved.values,
          parse_text(kGood, {"--optimizer.weight_decay=0.5"}).resolved),
      (Lines{"optimizer.weight_decay: was 0.0001, now 0.5: not allowed to "
             "change on resume"}));
}

TEST(Resume, FormerValuesAreValues) {
  for (const Key& key : key_table()) {
    if (key.formerly.empty()) continue;
    Options options;
    EXPECT_EQ(parse_value(key, key.formerly, options), std::nullopt)
        << key.name;
    EXPECT_EQ(format_value(key, options), key.formerly) << key.name;
    if (key.on_resume != OnResume::kFixed || !key.used_when.empty()) continue;
    const SavedInput saved;
    EXPECT_EQ(parse_text(kGood, {}, &saved).resolved.at(key.name), key.formerly)
        << key.name << " is not taken where a run lacks it";
  }
}

}  // namespace
}  // namespace syncopate
