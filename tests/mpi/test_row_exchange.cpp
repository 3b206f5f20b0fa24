// The exchange of rows by MPI ranks.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"
#include "unit/comm/row_exchange_contract.h"

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

}  // namespace
}  // namespace syncopate
