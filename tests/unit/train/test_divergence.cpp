#include "train/divergence.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

ParameterTable two_tensors() {
  ParameterTable table;
  table.add("conv1.weight", {16, 3, 3, 3}, Role::kWeight);
  table.add("fc.weight", {10, 64}, Role::kWeight);
  return table;
}

TEST(Divergence, SaysWhatWhereAndWhen) {
  const ParameterTable table = two_tensors();
  Divergence one{
      .rank = 2, .step = 17, .what = Divergence::kGradient, .tensor = 1};
  EXPECT_EQ(one.text(table),
            "the gradient of 'fc.weight' of worker 2 is not finite at step 17");
  one.what = Divergence::kLoss;
  EXPECT_EQ(one.text(table), "the loss of worker 2 is not finite at step 17");
  one.parameter = 0;
  EXPECT_EQ(one.text(table),
            "the loss of worker 2 is not finite at step 17, nor is its "
            "parameter 'conv1.weight'");
  one.what = Divergence::kParameters;
  EXPECT_EQ(one.text(table),
            "parameter 'conv1.weight' of worker 2 is not finite after step 17");
}

TEST(Divergence, TheFirstIsTheCause) {
  using What = Divergence::What;
  const auto at = [](int64_t step, What what, int rank) {
    return std::optional(Divergence{.rank = rank, .step = step, .what = what});
  };
  const auto loss = at(5, Divergence::kLoss, 1);
  EXPECT_FALSE(first_of({}, {}));
  EXPECT_EQ(first_of(loss, {})->rank, 1);
  EXPECT_EQ(first_of({}, loss)->rank, 1);
  EXPECT_EQ(first_of(at(6, Divergence::kLoss, 0), loss)->rank, 1);
  EXPECT_EQ(first_of(loss, at(5, Divergence::kGradient, 0))->rank, 1);
  EXPECT_EQ(first_of(at(5, Divergence::kGradient, 0), loss)->rank, 1);
  EXPECT_EQ(first_of(at(5, Divergence::kLoss, 2), loss)->rank, 1);
}

TEST(Divergence, NumbersAndBack) {
  EXPECT_FALSE(divergence_from(to_numbers({}).data()));
  const Divergence one{.rank = 0,
                       .step = int64_t{1} << 40,
                       .what = Divergence::kParameters,
                       .tensor = 3,
                       .parameter = 4};
  const std::vector<double> numbers = to_numbers(one);
  EXPECT_EQ(numbers.size(), to_numbers({}).size());
  const auto back = divergence_from(numbers.data());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 0);
  EXPECT_EQ(back->step, one.step);
  EXPECT_EQ(back->what, one.what);
  EXPECT_EQ(back->tensor, 3);
  EXPECT_EQ(back->parameter, 4);
}

}  // namespace
}  // namespace syncopate
