// The contract of endpoints and collectives for workers in one process.
// SPDX-License-Identifier: Apache-2.0
#include "unit/comm/contract.h"

namespace syncopate {
namespace {

// Calls `act` with worlds of several sizes.
template <typename Act>
void in_worlds(std::initializer_list<int> sizes, const Act& act) {
  for (const int workers : sizes) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    act(*make_inproc_world(workers, {}));
  }
}

class InprocContract : public ::testing::TestWithParam<contract::Check> {};

TEST_P(InprocContract, Holds) {
  in_worlds({1, 2, 3, 4, 7}, GetParam().hold);
}

INSTANTIATE_TEST_SUITE_P(Checks,
                         InprocContract,
                         ::testing::ValuesIn(contract::kChecks),
                         contract::name_of_check);

class InprocRowExchange : public InprocContract {};

TEST_P(InprocRowExchange, Holds) {
  in_worlds({1, 2, 3, 4, 5, 8, 9}, GetParam().hold);
}

INSTANTIATE_TEST_SUITE_P(Checks,
                         InprocRowExchange,
                         ::testing::ValuesIn(contract::kRowChecks),
                         contract::name_of_check);

TEST(InprocContract, Large) {
  in_worlds({1, 2, 3, 4, 7}, [](World& world) {
    contract::check_large(world, (int64_t{4} << 20) + 5);
  });
}

class InprocAllReduce : public ::testing::TestWithParam<CollectiveAlgorithm> {
 protected:
  const CollectiveAlgorithm algorithm_ = GetParam();
  template <typename Act>
  void in_all_worlds(const Act& act) {
    in_worlds({1, 2, 3, 4, 5, 6, 7, 8, 9}, act);
  }
};

TEST_P(InprocAllReduce, SumsInF32) {
  in_all_worlds([&](World& world) {
    contract::check_all_reduce(world, algorithm_, Wire::kF32);
  });
}
TEST_P(InprocAllReduce, SumsWithBf16OnTheWire) {
  in_all_worlds([&](World& world) {
    if (algorithm_ == CollectiveAlgorithm::kNative) {
      EXPECT_THROW(contract::check_bf16_agrees(world, algorithm_), Error);
      return;
    }
    contract::check_all_reduce(world, algorithm_, Wire::kBf16);
    contract::check_bf16_agrees(world, algorithm_);
  });
}
TEST_P(InprocAllReduce, Groups) {
  in_all_worlds([&](World& world) {
    contract::check_groups(world, algorithm_);
    contract::check_partial_groups(world, algorithm_);
  });
}

// Hosts of equal size, of different sizes, and of one worker.
TEST(InprocHierarchical, SumsOverAnyHosts) {
  constexpr auto kHierarchical = CollectiveAlgorithm::kHierarchical;
  for (const auto& [workers, per_host] :
       {std::pair{4, 2}, {6, 3}, {3, 2}, {5, 3}, {7, 3}, {9, 4}, {5, 1}}) {
    SCOPED_TRACE(std::to_string(workers) + " by " + std::to_string(per_host));
    NetworkCost cost;
    cost.island = per_host;
    const auto world = make_inproc_world(workers, cost);
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      contract::check_all_reduce(*world, kHierarchical, wire);
    contract::check_bf16_agrees(*world, kHierarchical);
    contract::check_groups(*world, kHierarchical);
    contract::check_partial_groups(*world, kHierarchical);
    contract::check_algorithms_at_once(*world);
  }
}

std::vector<CollectiveAlgorithm> algorithms() {
  std::vector<CollectiveAlgorithm> all;
  for (const auto& row : collective_table()) all.push_back(row.first);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Algorithms,
                         InprocAllReduce,
                         ::testing::ValuesIn(algorithms()),
                         [](const auto& instance) {
                           return std::string(name_of(instance.param));
                         });

}  // namespace
}  // namespace syncopate
