// The exchange of rows by MPI ranks, and bsp with tables of embeddings: the
// same bits and bytes as by workers in one process.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"
#include "unit/comm/row_exchange_contract.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

class MpiRowExchange : public ::testing::Test {
 protected:
  std::unique_ptr<World> world_ = mpi_session().make_world();
};

TEST_F(MpiRowExchange, SumsRowsAndCountsBytes) {
  contract::check_rows(*world_);
}
TEST_F(MpiRowExchange, Groups) {
  contract::check_rows_in_groups(*world_);
}
TEST_F(MpiRowExchange, AtOnce) {
  contract::check_rows_at_once(*world_);
}
TEST_F(MpiRowExchange, OrderIsThatOfPositions) {
  contract::check_order_of_rows(*world_);
}

// Two tables, a bucket together, and weights.
TEST_F(MpiRowExchange, BspIsThatOfOneProcess) {
  constexpr int64_t kRows = 5000, kElems = 10;
  test::ToyRun run;
  run.shapes = {Shape{kRows, kElems}, Shape{kRows, 1}, Shape{8, 12}};
  run.num_tables = 2;
  run.num_buffers = 0;
  run.optimizer.momentum = 0.9;
  run.gradient = [](int rank, int64_t step, std::span<const float> x,
                    std::span<float> gradient) {
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / kElems;
      if (row >= kRows || (row * 3 + rank + step) % 29 == 0)
        gradient[i] = x[i] + 0.1f * static_cast<float>(rank + 1);
    }
  };
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    run.sync.wire = wire;
    const auto by_ranks = test::train_toy(*world_, run);
    const auto by_workers = test::train_toy(world_->size(), run);
    EXPECT_EQ(by_ranks.parameters, by_workers.parameters);
    EXPECT_EQ(by_ranks.payload_bytes, by_workers.payload_bytes);
    EXPECT_EQ(by_ranks.payload_messages, by_workers.payload_messages);
  }
}

}  // namespace
}  // namespace syncopate
