// Earlier format versions: what their state becomes; another number of workers.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/convert.h"
#include "checkpoint/resized.h"
#include "fixture.h"
#include "tensor/parameter_table.h"

namespace syncopate {
namespace {

using Floats = std::vector<float>;

TEST(FromVersion1, ChocoKeepsTheDifferenceOfItsSums) {
  NamedState state;
  state["s/fc.weight"] = Floats{1, 2, 3.5f};
  state["xhat/fc.weight"] = Floats{0.5f, 2, -1};
  state["s/fc.bias"] = Floats{4};
  state["xhat/fc.bias"] = Floats{1};
  state["round"] = std::vector<int64_t>{6};
  state["rate"] = std::vector<double>{1};
  convert_from_version_1(state);
  EXPECT_EQ(std::get<Floats>(state.at("c/fc.weight")), (Floats{0.5f, 0, 4.5f}));
  EXPECT_EQ(std::get<Floats>(state.at("c/fc.bias")), Floats{3});
  EXPECT_EQ(std::get<Floats>(state.at("xhat/fc.weight")), (Floats{0.5f, 2, -1}))
      << "copies stay";
  EXPECT_EQ(state.size(), 6u) << "s is gone, the rest is there";
}

TEST(FromVersion1, SumsWithoutTheirCopiesAreRefused) {
  NamedState alone, other_size;
  alone["s/w"] = Floats{1};
  EXPECT_THROW(convert_from_version_1(alone), Error);
  other_size["s/w"] = Floats{1};
  other_size["xhat/w"] = Floats{1, 2};
  EXPECT_THROW(convert_from_version_1(other_size), Error);
}

TEST(FromVersion1, ChocosDifferencesAddUpToNothing) {
  Floats a = {0.3f, -0.1f}, b = {0.1f, 0.7f}, c = {-0.40003f, -0.6f};
  const std::vector<double> sums = {static_cast<double>(a[0]) + b[0] + c[0],
                                    static_cast<double>(a[1]) + b[1] + c[1]};
  for (Floats* one : {&a, &b, &c}) remove_mean(*one, sums, 3);
  EXPECT_NEAR(a[0], 0.3 + 0.00001, 1e-7);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(static_cast<double>(a[i]) + b[i] + c[i], 0, 3 * 0x1p-26);
    EXPECT_EQ(std::nearbyint(a[i] * 0x1p25), a[i] * 0x1p25);
  }
}

TEST(FromVersion1, WindowsOfTheDetectorEnd) {
  NamedState state;
  // Two workers, a window of 3: the second has not seen a whole one.
  state["stragglers/step_s"] = std::vector<double>{4, 1, 1, 2, 2, 0};
  state["stragglers/observed"] = std::vector<int64_t>{7, 2};
  state["stragglers/slow"] = std::vector<int64_t>{2, 0};
  state["stragglers/fast"] = std::vector<int64_t>{0, 5};
  state["stragglers/known"] = std::vector<int64_t>{1, 0};
  convert_from_version_1(state);
  const auto counts = [&](const char* name) {
    return std::get<std::vector<int64_t>>(state.at(name));
  };
  const std::vector<int64_t> none = {0, 0};
  EXPECT_EQ(std::get<std::vector<double>>(state.at("stragglers/throughput")),
            (std::vector<double>{0.5, 0}));
  EXPECT_EQ(std::get<std::vector<double>>(state.at("stragglers/window_s")),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(counts("stragglers/window_steps"), none);
  EXPECT_EQ(counts("stragglers/slow"), none);
  EXPECT_EQ(counts("stragglers/fast"), none);
  EXPECT_EQ(counts("stragglers/known"), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(state.size(), 6u);
  NamedState bad;
  bad["stragglers/step_s"] = std::vector<double>(5);
  bad["stragglers/observed"] = std::vector<int64_t>(2);
  EXPECT_THROW(convert_from_version_1(bad), Error);
}

TEST(Resized, PositionsAreCountedInSamples) {
  // Two epochs of 10 batches and 6 more, by each of 4: 24 of the third epoch.
  EXPECT_EQ(resized_position({26, 26, 26, 26}, 10, 2, 20), 2 * 20 + 12);
  EXPECT_EQ(resized_position({26, 26, 26, 26}, 10, 8, 5), 2 * 5 + 3);
  EXPECT_EQ(resized_position({26, 26, 26, 26}, 10, 4, 10), 26);
  // Steps of two batches: three workers after one step, then two workers.
  EXPECT_EQ(resized_position({2, 2, 2}, 10, 2, 20, 2), 2);
  // Whole epochs stay whole, also where batches were left over.
  EXPECT_EQ(resized_position({20, 20, 20, 20}, 10, 3, 13), 26);
  // Free-running workers have read different numbers of samples: 19 in the
  // first epoch.
  EXPECT_EQ(resized_position({10, 3, 6}, 10, 2, 15), 9);
}

// Three workers' state as two others load it.
class ResizedCheckpoint : public testing::Test {
 protected:
  ResizedCheckpoint() {
    table_.add("w", {2, 3}, Role::kWeight);
    table_.add("b", {3}, Role::kBias);
    make_inproc_world(3, {})->run([&](Endpoint& endpoint) {
      const int rank = endpoint.rank();
      const fs::path folder = save_checkpoint(
          endpoint, scratch_.path(), facts_of(7, 3),
          [&](StateVisitor& visitor) { visit_three(visitor, rank); }, 2);
      if (rank == 0) folder_ = folder;
    });
  }

  void visit_three(StateVisitor& visitor, int rank) {
    Floats parameters(9);
    for (size_t i = 0; i < 9; ++i)
      parameters[i] = static_cast<float>(10 * i) + static_cast<float>(rank);
    visitor.visit_range(Owner::kWorker, "parameters", table_, parameters);
    // A server's slices: 4, 4 and 1 of the range's 9.
    const int64_t begin = 4 * rank, elems = rank == 2 ? 1 : 4;
    Floats slice;
    for (int64_t i = begin; i < begin + elems; ++i)
      slice.push_back(static_cast<float>(100 + i));
    visitor.visit_slice(Owner::kWorker, "momentum", table_, begin, slice);
    Floats residual(9, static_cast<float>(rank));
    visitor.visit_range(Owner::kWorker, "residual", table_, residual);
    int64_t steps = 7, batches = 7;
    visitor.visit(Owner::kWorker, "steps", std::span(&steps, 1));
    visitor.visit(Owner::kWorker, "batches_seen", std::span(&batches, 1));
  }

  ScratchFolder scratch_;
  ParameterTable table_;
  fs::path folder_;
};

TEST_F(ResizedCheckpoint, MeansAndSlicesPutTogether) {
  ResizedState state(verify_checkpoint(folder_), 0, 2);
  EXPECT_EQ(state.steps(), 10) << "21 worker steps: one is done again";
  EXPECT_EQ(state.of_workers("batches_seen"), (std::vector<int64_t>{7, 7, 7}));
  Floats parameters(9), momentum(9), residual(9), again(9, -1);
  state.visit_range(Owner::kWorker, "parameters", table_, parameters);
  state.visit_range(Owner::kWorker, "momentum", table_, momentum);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(parameters[i], static_cast<float>(10 * i + 1));
    EXPECT_EQ(momentum[i], static_cast<float>(100 + i));
  }
  state.has_model();
  state.visit_range(Owner::kWorker, "parameters", table_, again);
  EXPECT_EQ(again, Floats(9, -1)) << "the model was loaded already";
  state.visit_range(Owner::kWorker, "residual", table_, residual);
  EXPECT_EQ(residual, Floats(9, 1));
  int64_t steps = 0, copy = 5;
  state.visit(Owner::kWorker, "steps", std::span(&steps, 1));
  EXPECT_EQ(steps, 10);
  state.visit(Owner::kWorker, "round", std::span(&copy, 1));
  EXPECT_EQ(copy, 5) << "there is no rule for it";
}

// Tensors have their shapes, parts of tensors say which part they are.
TEST_F(ResizedCheckpoint, TensorsHaveShapes) {
  const std::string text = describe_checkpoint(folder_);
  for (const char* line :
       {"parameters/w                                     float32 (2, 3)",
        "momentum/w                                       float32 (4)"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace syncopate
