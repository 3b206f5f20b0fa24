// The contract of endpoints and collectives, by workers in one process.
// SPDX-License-Identifier: Apache-2.0
#include "unit/comm/endpoint_contract.h"

namespace syncopate {
namespace {

class InprocContract : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<World> world_ = make_inproc_world(GetParam(), {});
};

constexpr auto kRing = CollectiveAlgorithm::kRing;
constexpr auto kNative = CollectiveAlgorithm::kNative;

TEST_P(InprocContract, Order) {
  contract::check_order(*world_);
}
TEST_P(InprocContract, ZeroBytes) {
  contract::check_zero_bytes(*world_);
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
TEST_P(InprocContract, RingF32) {
  contract::check_all_reduce(*world_, kRing, Wire::kF32);
}
TEST_P(InprocContract, RingBf16) {
  contract::check_all_reduce(*world_, kRing, Wire::kBf16);
  contract::check_bf16_agrees(*world_);
}
TEST_P(InprocContract, Native) {
  contract::check_all_reduce(*world_, kNative, Wire::kF32);
}
TEST_P(InprocContract, Groups) {
  contract::check_groups(*world_, kRing);
  contract::check_groups(*world_, kNative);
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

}  // namespace
}  // namespace syncopate
