// run.target: what the grammar means, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "config/goal.h"

#include <gtest/gtest.h>

#include <limits>

#include "input_files.h"

namespace syncopate {
namespace {

TEST(Goal, Reads) {
  const std::optional<Goal> least = parse_goal("accuracy >= 0.9");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->metric, "accuracy");
  EXPECT_EQ(least->text(), "accuracy >= 0.9");
  EXPECT_FALSE(least->is_reached_by(0.8999));
  EXPECT_TRUE(least->is_reached_by(0.9));
  EXPECT_TRUE(least->is_reached_by(0.95));
  const std::optional<Goal> most = parse_goal("  loss<=3e-1 ");
  ASSERT_TRUE(most);
  EXPECT_EQ(most->text(), "loss <= 0.3");
  EXPECT_TRUE(most->is_reached_by(0.3));
  EXPECT_TRUE(most->is_reached_by(-1));
  EXPECT_FALSE(most->is_reached_by(0.301));
}

TEST(Goal, IsNotReachedByNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(parse_goal("accuracy >= 0")->is_reached_by(nan));
  EXPECT_FALSE(parse_goal("loss <= 0")->is_reached_by(nan));
}

TEST(Goal, Refuses) {
  for (const char* text :
       {"", "accuracy", "accuracy 0.9", "accuracy > 0.9", "accuracy = 0.9",
        "accuracy => 0.9", "accuracy >= ", ">= 0.9", "accuracy >= 0.9x",
        "accuracy >= nan", "accuracy >= inf", "accuracy >= 0.9 0.8",
        "0.9 <= accuracy <= 1", "Top 5 >= 0.9", "accuracy > = 0.9"})
    EXPECT_FALSE(parse_goal(text)) << text;
}

const std::string kGood =
    "[run]\nsteps = 10\n[data]\nkind = synthetic_images\n";

TEST(Goal, IsAKey) {
  const ParsedInput input = parse_text(kGood, {"--run.target=accuracy >= 0.9"});
  EXPECT_EQ(input.errors, Lines{});
  EXPECT_EQ(input.options.run.target, "accuracy >= 0.9");
  EXPECT_EQ(input.resolved.at("run.target"), "accuracy >= 0.9");
  EXPECT_EQ(parse_text(kGood, {"--run.target=-"}).options.run.target, "");
  EXPECT_EQ(parse_text(kGood).resolved.at("run.target"), "-");
  const ParsedInput in_file = parse_text(
      "[run]\nsteps = 10\ntarget = loss <= 0.3\n[data]\n"
      "kind = synthetic_images\n");
  EXPECT_EQ(in_file.options.run.target, "loss <= 0.3");
}

TEST(Goal, MistakesAreOneLine) {
  EXPECT_EQ(parse_text(kGood, {"--run.target=accuracy > 0.9"}).errors,
            (Lines{"command line: run.target: expected - or a result such as "
                   "accuracy >= 0.9 or loss <= 0.3, found "
                   "\"accuracy > 0.9\""}));
  EXPECT_EQ(
      parse_text(kGood, {"--run.target=accuracy >= 0.9", "--eval.every=0"})
          .errors,
      (Lines{"command line: run.target: is judged at evaluations, "
             "expected eval.every > 0"}));
}

}  // namespace
}  // namespace syncopate
