// Series in memory, in the file, and back after a resume.
#include <unistd.h>

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hdf5_file.h"
#include "results/results.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

class ResultsTest : public testing::Test {
 protected:
  fs::path path() const { return directory_ / "results.h5"; }

  static void declare(Results& results) {
    Table& train = results.table("train");
    train.declare({.name = "step",
                   .unit = "1",
                   .description = "Steps.",
                   .is_integer = true});
    train.declare({.name = "worker_steps",
                   .unit = "1",
                   .description = "Steps of all workers.",
                   .is_integer = true});
    train.declare({.name = "time_s",
                   .unit = "s",
                   .description = "Training time.",
                   .is_time = true});
    train.declare({.name = "loss_worker",
                   .unit = "1",
                   .description = "Loss of each worker.",
                   .width = 2});
    Table& eval = results.table("eval");
    eval.declare({.name = "worker_steps",
                  .unit = "1",
                  .description = "Steps of all workers.",
                  .is_integer = true});
    eval.declare(
        {.name = "loss", .unit = "1", .description = "Mean test loss."});
  }
  static void append(Results& results, int first, int last) {
    for (int i = first; i <= last; ++i)
      results.table("train").append(
          {double(i), 2.0 * i, i * 0.1, 1.0 / i, 2.0 / i});
  }
  // Three rows, a summary and provenance, committed.
  void write_three() const {
    Results results(path());
    declare(results);
    append(results, 1, 3);
    results.provenance("git", std::string("abc"));
    results.provenance("restarts", int64_t{4});
    results.summary("accuracy", 0.875, "1", "Test accuracy at the end.");
    results.commit();
  }
  static std::string error_of(ExitCode code, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
      return error.what();
    }
    return "";
  }

  ScratchFolder directory_;
};

TEST_F(ResultsTest, FileHoldsTypesShapesUnitsAndFacts) {
  write_three();
  const Hdf5Reader file(path());
  std::vector<std::string> found;
  for (const Hdf5Dataset& dataset : file.datasets())
    found.push_back(dataset.name + " " + describe(dataset));
  EXPECT_EQ(found, (std::vector<std::string>{
                       "eval/loss float64 (0)",
                       "eval/worker_steps int64 (0)",
                       "summary/accuracy float64 ()",
                       "train/loss_worker float64 (3, 2)",
                       "train/step int64 (3)",
                       "train/time_s float64 (3)",
                       "train/worker_steps int64 (3)",
                   }));
  for (const Hdf5Dataset& dataset : file.datasets()) {
    EXPECT_TRUE(file.text_attribute(dataset.name, "units").has_value());
    EXPECT_TRUE(file.text_attribute(dataset.name, "description").has_value());
  }
  EXPECT_EQ(file.text_attribute("train/time_s", "units"), "s");
  EXPECT_EQ(file.int_attribute("train/time_s", "depends_on_clock"), 1);
  EXPECT_EQ(file.int_attribute("train/step", "depends_on_clock"), 0);
  EXPECT_EQ(file.text_attribute("/", "format"), "syncopate results");
  EXPECT_EQ(file.int_attribute("/", "format_version"), 1);
  EXPECT_EQ(file.text_attribute("provenance", "git"), "abc");
  EXPECT_EQ(file.int_attribute("provenance", "restarts"), 4);
  std::vector<double> loss(6);
  file.read("train/loss_worker", std::span<double>(loss));
  EXPECT_EQ(loss, (std::vector<double>{1, 2, 0.5, 1, 1.0 / 3, 2.0 / 3}));
  EXPECT_FALSE(fs::exists(path().string() + ".tmp"));
}

TEST_F(ResultsTest, ResumeDropsRowsAfterTheCheckpointAndGoesOn) {
  write_three();
  Results results(path());
  declare(results);
  results.resume(4);  // worker_steps of row 2
  EXPECT_EQ(results.table("train").rows(), 2);
  EXPECT_EQ(results.table("eval").rows(), 0);
  EXPECT_EQ(results.provenance_integer("restarts"), 4);
  append(results, 3, 5);
  results.commit();
  const std::string resumed = read_file(path());

  fs::remove(path());
  Results straight(path());
  declare(straight);
  append(straight, 1, 5);
  straight.provenance("git", std::string("abc"));
  straight.provenance("restarts", int64_t{4});
  straight.commit();
  EXPECT_EQ(resumed, read_file(path()));
}

TEST_F(ResultsTest, WhatWasSetBeforeResumeStays) {
  write_three();
  Results results(path());
  declare(results);
  results.provenance("git", std::string("def"));
  results.resume(100);
  results.commit();
  const Hdf5Reader file(path());
  EXPECT_EQ(file.text_attribute("provenance", "git"), "def");
  EXPECT_EQ(file.int_attribute("provenance", "restarts"), 4);
}

TEST_F(ResultsTest, NonFiniteValuesSurvive) {
  Results results(path());
  declare(results);
  results.table("train").append({1, 1, 0.5, NAN, INFINITY});
  results.commit();
  Results again(path());
  declare(again);
  again.resume(1);
  const std::vector<double>& values =
      again.table("train").column("loss_worker").values;
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isinf(values[1]));
}

TEST_F(ResultsTest, EveryFlippedByteIsRefusedBeforeHdf5SeesIt) {
  write_three();
  const std::string bytes = read_file(path());
  for (size_t i = 0; i < bytes.size(); i += 37) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    std::ofstream(path(), std::ios::binary) << flipped;
    Results results(path());
    declare(results);
    EXPECT_NE(error_of(ExitCode::kBadInput, [&] { results.resume(9); }), "")
        << i;
  }
  std::ofstream(path(), std::ios::binary) << bytes;
  EXPECT_NE(describe_results(path()).find("intact"), std::string::npos);
}

TEST_F(ResultsTest, GarbageTruncationAndAbsence) {
  Results results(path());
  declare(results);
  EXPECT_NE(error_of(ExitCode::kInputMissing, [&] { results.resume(9); }), "");
  std::ofstream(path()) << "garbage";
  EXPECT_NE(error_of(ExitCode::kBadInput, [&] { results.resume(9); }), "");
  write_three();
  fs::resize_file(path(), fs::file_size(path()) - 1);
  EXPECT_NE(error_of(ExitCode::kBadInput, [&] { results.resume(9); }), "");
  EXPECT_NE(describe_results(path()).find("damaged"), std::string::npos);
}

TEST_F(ResultsTest, OtherColumnsThanTheFileHasAreRefused) {
  write_three();
  Results results(path());
  Table& train = results.table("train");
  train.declare({.name = "worker_steps",
                 .unit = "1",
                 .description = "Steps of all workers.",
                 .is_integer = true});
  train.declare({.name = "loss_worker",
                 .unit = "1",
                 .description = "Loss of each worker.",
                 .width = 3});
  const std::string line =
      error_of(ExitCode::kBadInput, [&] { results.resume(9); });
  EXPECT_NE(line.find("float64 (3, 2) found, float64 (3, 3) expected"),
            std::string::npos)
      << line;
}

TEST_F(ResultsTest, FolderThatIsMissingIsOneLine) {
  Results results(directory_ / "none/results.h5");
  const std::string line =
      error_of(ExitCode::kCannotCreate, [&] { results.commit(); });
  EXPECT_NE(line.find("No such file or directory"), std::string::npos) << line;
}

TEST_F(ResultsTest, CommitsWhenDueOnly) {
  Results results(path());
  declare(results);
  results.commit_if_due();  // ten seconds have not passed
  EXPECT_FALSE(fs::exists(path()));
}

TEST(Table, RowsOfAnotherWidthAreOurMistake) {
  Table table;
  table.declare({.name = "a", .unit = "1", .description = "A.", .width = 2});
  EXPECT_THROW(table.append({1}), Error);
  table.append({1, 2});
  EXPECT_EQ(table.rows(), 1);
  EXPECT_THROW(table.declare({.name = "b", .unit = "1", .description = "B."}),
               Error);
}

}  // namespace
}  // namespace syncopate
