#include "ops/plan_table.h"

#include <vector>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/scratch_folder.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

const PlanOrigin kHere{"NVIDIA H200, 139.8 GiB", "cuDNN 9.19.0, cuBLASLt 13.1"};
const PlanOrigin kOther{"NVIDIA A100, 79.2 GiB", "cuDNN 9.19.0, cuBLASLt 13.1"};
const PlanOrigin kLater{"NVIDIA H200, 139.8 GiB",
                        "cuDNN 9.20.0, cuBLASLt 13.1"};

class PlanTableTest : public testing::Test {
 protected:
  const ScratchFolder dir_;
  const fs::path file_ = dir_.path() / "plans.txt";
  TestContext test_;

  void expect_refusal(const std::string& content, const std::string& line) {
    write_file_atomically(file_, content);
    expect_error(ExitCode::kBadInput, line, [&] { PlanTable::read(file_); });
  }
};

TEST_F(PlanTableTest, FileKeepsWhatWasPut) {
  PlanTable table;
  table.put(kHere, "gemm m1 n2 d3", {"algo66 tile20", 1.5e-6});
  table.put(kHere, "conv_forward n128", {"engine 47 k2=1", 2e-3});
  table.put(kOther, "gemm m1 n2 d3", {"algo7", 3e-6});
  table.put(kHere, "gemm m1 n2 d3", {"algo66 tile15", 1.25e-6});
  table.write(file_);
  EXPECT_EQ(read_file(file_),
            "syncopate plans 1\n"
            "on\tNVIDIA A100, 79.2 GiB\tcuDNN 9.19.0, cuBLASLt 13.1\n"
            "plan\t3.000\tgemm m1 n2 d3\talgo7\n"
            "on\tNVIDIA H200, 139.8 GiB\tcuDNN 9.19.0, cuBLASLt 13.1\n"
            "plan\t2000.000\tconv_forward n128\tengine 47 k2=1\n"
            "plan\t1.250\tgemm m1 n2 d3\talgo66 tile15\n");
  const PlanTable again = PlanTable::read(file_);
  EXPECT_EQ(again.count(kHere), 2);
  EXPECT_EQ(again.count(kOther), 1);
  ASSERT_NE(again.find(kHere, "gemm m1 n2 d3"), nullptr);
  EXPECT_EQ(again.find(kHere, "gemm m1 n2 d3")->plan, "algo66 tile15");
  EXPECT_NEAR(again.find(kHere, "gemm m1 n2 d3")->seconds, 1.25e-6, 1e-12);
  EXPECT_EQ(again.find(kHere, "gemm m1 n2 d4"), nullptr);
}

TEST_F(PlanTableTest, OtherGpusAndVersionsAreNotFound) {
  PlanTable table;
  table.put(kHere, "gemm", {"algo66", 1e-6});
  EXPECT_EQ(table.find(kOther, "gemm"), nullptr);
  EXPECT_EQ(table.find(kLater, "gemm"), nullptr);
  EXPECT_EQ(table.describe(kHere),
            "1 measured on NVIDIA H200, 139.8 GiB with cuDNN 9.19.0, cuBLASLt "
            "13.1");
  EXPECT_EQ(table.describe(kLater),
            "none for NVIDIA H200, 139.8 GiB with cuDNN 9.20.0, cuBLASLt 13.1, "
            "so the libraries choose (there are plans for: NVIDIA H200, 139.8 "
            "GiB with cuDNN 9.19.0, cuBLASLt 13.1)");
}

TEST_F(PlanTableTest, DamagedFilesAreRefusedByLine) {
  const std::string hint = " (bench ops --tune writes such files)";
  const std::string path = file_.string();
  expect_refusal("", path + ":1: expected syncopate plans 1" + hint);
  expect_refusal("syncopate plans 2\n",
                 path + ":1: expected syncopate plans 1" + hint);
  expect_refusal("syncopate plans 1\nplan\t1\tgemm\talgo\n",
                 path +
                     ":2: expected \"on GPU LIBRARIES\" before the first "
                     "plan" +
                     hint);
  expect_refusal("syncopate plans 1\non\tgpu\tlibrary\nplan\tfast\tg\ta\n",
                 path + ":3: expected microseconds" + hint);
  expect_refusal("syncopate plans 1\non\tgpu\n",
                 path +
                     ":2: expected \"on GPU LIBRARIES\" or \"plan "
                     "MICROSECONDS PROBLEM PLAN\"" +
                     hint);
  expect_refusal("syncopate plans 1\n\non\tgpu\tlibrary\n",
                 path +
                     ":2: expected \"on GPU LIBRARIES\" or \"plan "
                     "MICROSECONDS PROBLEM PLAN\"" +
                     hint);
  EXPECT_THROW(PlanTable::read(dir_.path() / "none"), Error);
}

// A plan that is not listed any more, or no longer allowed, is not taken.
TEST_F(PlanTableTest, StalePlansLeaveTheChoiceToTheLibrary) {
  PlanTable table;
  table.put(kHere, "a", {"second", 1e-6});
  table.put(kHere, "b", {"gone", 1e-6});
  table.put(kOther, "c", {"second", 1e-6});
  TablePlans plans(table, kHere);
  const auto choose = [&](const std::string& problem) {
    return plans.choose(test_.context,
                        {problem, {"first", "second"}, [](size_t) {}});
  };
  EXPECT_EQ(choose("a"), 1u);
  EXPECT_EQ(choose("b"), 0u);
  EXPECT_EQ(choose("c"), 0u);
  EXPECT_EQ(choose("unknown"), 0u);
}

// Work that takes clearly longer the further a plan is from the best one.
TEST_F(PlanTableTest, TunerKeepsTheFastest) {
  PlanTable table;
  PlanTuner tuner(table, kHere);
  std::vector<int> runs(3);
  volatile double sink = 0;
  const size_t chosen = tuner.choose(
      test_.context, {"work", {"slow", "fast", "slower"}, [&](size_t plan) {
                        ++runs[plan];
                        const int turns[] = {200000, 200, 400000};
                        for (int i = 0; i < turns[plan]; ++i) sink = sink + i;
                      }});
  EXPECT_EQ(chosen, 1u);
  EXPECT_EQ(table.find(kHere, "work")->plan, "fast");
  EXPECT_EQ(runs, std::vector<int>({51, 51, 21}));  // the last is abandoned
  EXPECT_EQ(tuner.gain().problems, 1);
  EXPECT_GT(tuner.gain().before_s, tuner.gain().after_s);
}

}  // namespace
}  // namespace syncopate
