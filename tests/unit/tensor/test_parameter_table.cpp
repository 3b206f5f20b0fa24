#include "tensor/parameter_table.h"

#include <gtest/gtest.h>

#include "tensor/state_visitor.h"

namespace syncopate {
namespace {

ParameterTable small_table() {
  ParameterTable table;
  table.add("conv.weight", {2, 3, 1, 1}, Role::kWeight);
  table.add("bn.gamma", {2}, Role::kBatchNorm);
  table.add("fc.bias", {4}, Role::kBias);
  return table;
}

TEST(ParameterTable, EntriesFollowEachOtherWithoutHoles) {
  const ParameterTable table = small_table();
  EXPECT_EQ(table.num_tensors(), 3);
  EXPECT_EQ(table.num_elems(), 12);
  EXPECT_EQ(table[0].offset, 0);
  EXPECT_EQ(table[1].offset, 6);
  EXPECT_EQ(table[2].offset, 8);
  EXPECT_EQ(table[1].role, Role::kBatchNorm);
}

TEST(ParameterTable, FindsTheEntryOfAnElement) {
  const ParameterTable table = small_table();
  const int expected[] = {0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(table.find(i), expected[i]) << i;
  EXPECT_THROW(table.find(12), Error);
  EXPECT_THROW(table.find(-1), Error);
}

class Names final : public StateVisitor {
 public:
  std::vector<std::string> names;
  std::vector<int64_t> counts;
  void visit(Owner, std::string_view name, Values values) override {
    const auto floats = std::get<std::span<float>>(values);
    names.emplace_back(name);
    counts.push_back(std::ssize(floats));
    for (float& value : floats) value += 1;
  }
};

TEST(StateVisitor, ARangeIsVisitedTensorByTensor) {
  const ParameterTable table = small_table();
  std::vector<float> range(12);
  for (size_t i = 0; i < range.size(); ++i) range[i] = static_cast<float>(i);
  Names visitor;
  visitor.visit_range(Owner::kShared, "parameters", table, range);
  EXPECT_EQ(visitor.names, (std::vector<std::string>{"parameters/conv.weight",
                                                     "parameters/bn.gamma",
                                                     "parameters/fc.bias"}));
  EXPECT_EQ(visitor.counts, (std::vector<int64_t>{6, 2, 4}));
  for (size_t i = 0; i < range.size(); ++i)  // each element once
    EXPECT_EQ(range[i], static_cast<float>(i + 1));
}

// A quarter of 10 rows rounds to 3 (2.5 away from zero), of one row is one.
TEST(ParameterTable, ThinnedTensorsKeepAShareOfTheirFirstDimension) {
  ParameterTable table;
  table.add("tokens", {40, 8}, Role::kEmbedding);
  table.add("conv", {10, 2, 3, 3}, Role::kWeight);
  table.add("scale", {1}, Role::kBatchNorm);
  const ParameterTable thin = thinned(table, 0.25);
  ASSERT_EQ(thin.num_tensors(), 3);
  EXPECT_EQ(thin[0].shape, (Shape{10, 8}));
  EXPECT_EQ(thin[0].role, Role::kEmbedding);
  EXPECT_EQ(thin[1].shape, (Shape{3, 2, 3, 3}));
  EXPECT_EQ(thin[1].name, "conv");
  EXPECT_EQ(thin[2].shape, Shape{1});
  EXPECT_EQ(thin[2].offset, 10 * 8 + 3 * 18);
  EXPECT_EQ(thin.num_elems(), 10 * 8 + 3 * 18 + 1);
}

}  // namespace
}  // namespace syncopate
