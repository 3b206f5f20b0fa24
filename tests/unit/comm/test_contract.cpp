// The contract of endpoints and collectives, by workers in one process.
// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "unit/comm/collective_contract.h"
#include "unit/comm/service_contract.h"

namespace syncopate {
namespace {

class InprocContract : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<World> world_ = make_inproc_world(GetParam(), {});
};

TEST_P(InprocContract, Order) {
  contract::check_order(*world_);
}
TEST_P(InprocContract, ZeroBytes) {
  contract::check_zero_bytes(*world_);
}
TEST_P(InprocContract, OwnMessages) {
  contract::check_own_messages(*world_);
}
TEST_P(InprocContract, Large) {
  contract::check_large(*world_, (int64_t{4} << 20) + 5);
}
TEST_P(InprocContract, RecvAny) {
  contract::check_recv_any(*world_);
}
TEST_P(InprocContract, Service) {
  contract::check_service(*world_);
}
TEST_P(InprocContract, ServiceBesideComputing) {
  contract::check_service_beside_computing(*world_);
}
TEST_P(InprocContract, ServiceEndsWhenTold) {
  contract::check_service_ends_when_told(*world_);
}
TEST_P(InprocContract, LargeRequests) {
  contract::check_large_requests(*world_);
}
TEST_P(InprocContract, ManyServices) {
  contract::check_many_services(*world_);
}
TEST_P(InprocContract, TasksOverlap) {
  contract::check_tasks_overlap(*world_);
}
TEST_P(InprocContract, TaskError) {
  contract::check_task_error(*world_);
  contract::check_unjoined_task_error(*world_);
}
TEST_P(InprocContract, SizeMismatch) {
  contract::check_size_mismatch(*world_);
}
TEST_P(InprocContract, AlgorithmsAtOnce) {
  contract::check_algorithms_at_once(*world_);
}
TEST_P(InprocContract, BroadcastAndGather) {
  contract::check_broadcast_and_gather(*world_);
}
TEST_P(InprocContract, Agree) {
  contract::check_agree(*world_);
}
TEST_P(InprocContract, Barrier) {
  contract::check_barrier(*world_);
}

INSTANTIATE_TEST_SUITE_P(Workers,
                         InprocContract,
                         ::testing::Values(1, 2, 3, 4, 7),
                         ::testing::PrintToStringParamName());

class InprocAllReduce
    : public ::testing::TestWithParam<std::tuple<CollectiveAlgorithm, int>> {
 protected:
  const CollectiveAlgorithm algorithm_ = std::get<0>(GetParam());
  std::unique_ptr<World> world_ =
      make_inproc_world(std::get<1>(GetParam()), {});
};

TEST_P(InprocAllReduce, SumsInF32) {
  contract::check_all_reduce(*world_, algorithm_, Wire::kF32);
}
TEST_P(InprocAllReduce, SumsWithBf16OnTheWire) {
  if (algorithm_ == CollectiveAlgorithm::kNative) {
    EXPECT_THROW(contract::check_bf16_agrees(*world_, algorithm_), Error);
    return;
  }
  contract::check_all_reduce(*world_, algorithm_, Wire::kBf16);
  contract::check_bf16_agrees(*world_, algorithm_);
}
TEST_P(InprocAllReduce, DisjointGroups) {
  contract::check_groups(*world_, algorithm_);
}
TEST_P(InprocAllReduce, PartialGroups) {
  contract::check_partial_groups(*world_, algorithm_);
}

std::vector<CollectiveAlgorithm> algorithms() {
  std::vector<CollectiveAlgorithm> all;
  for (const auto& row : collective_table()) all.push_back(row.first);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Workers,
                         InprocAllReduce,
                         ::testing::Combine(::testing::ValuesIn(algorithms()),
                                            ::testing::Range(1, 10)),
                         [](const auto& instance) {
                           return fmt::format("{}_{}",
                                              std::get<0>(instance.param),
                                              std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace syncopate
