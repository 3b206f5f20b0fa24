// Sums of tables of which few rows were touched.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "unit/comm/row_exchange_contract.h"

namespace syncopate {
namespace {

// Each other member gets counts of 8 bytes; a row has 4 bytes and its values.
TEST(RowExchangeBytes, FollowTheFormula) {
  const TouchedRows few{1000 * 10, 10, {3, 0, 7}};
  EXPECT_EQ(all_reduce_rows_bytes({&few, 1}, 0, Wire::kF32),
            2 * (8 + 3 * (4 + 40)));
  EXPECT_EQ(all_reduce_rows_bytes({&few, 1}, 1, Wire::kF32), 2 * 8);
  EXPECT_EQ(all_reduce_rows_bytes({&few, 1}, 2, Wire::kBf16),
            2 * (8 + 7 * (4 + 20)));
  const TouchedRows alone{1000 * 10, 10, {500}};
  EXPECT_EQ(all_reduce_rows_bytes({&alone, 1}, 0, Wire::kF32), 0);
  const TouchedRows empty{0, 10, {0, 0}};
  EXPECT_EQ(all_reduce_rows_bytes({&empty, 1}, 1, Wire::kF32), 8);
}

// 600 rows of 4 elements: a ring of N sends 2 (N-1) * 9600 bytes in total, the
// exchange of rows (N-1) * 20 bytes per row.
TEST(RowExchangeBytes, ManyRowsGoByTheRing) {
  const TouchedRows under{600 * 4, 4, {500, 460}};
  EXPECT_TRUE(travels_as_rows(under, Wire::kF32));
  const TouchedRows over{600 * 4, 4, {500, 461}};
  EXPECT_FALSE(travels_as_rows(over, Wire::kF32));
  EXPECT_EQ(all_reduce_rows_bytes({&over, 1}, 0, Wire::kF32), 8 + 9600);
  // With values of two bytes the row numbers matter more: 12 bytes per row.
  EXPECT_FALSE(travels_as_rows(under, Wire::kBf16));
  EXPECT_TRUE(travels_as_rows({600 * 4, 4, {400, 400}}, Wire::kBf16));
}

// Values of -0 and NaN are sent too, so that all members get the same bits.
TEST(RowExchangeValues, NegativeZeroAndNan) {
  make_inproc_world(2, {})->run([](Endpoint& endpoint) {
    std::vector<float> values(100, 0.0f);
    if (endpoint.rank() == 1) {
      values[7] = -0.0f;
      values[50] = std::numeric_limits<float>::quiet_NaN();
    }
    HostRows table({{values, 5}});
    all_reduce_rows(endpoint, endpoint.world_group(), table, Wire::kF32,
                    tags::kCollective, Traffic::kPayload);
    EXPECT_FALSE(std::signbit(values[7]));
    EXPECT_TRUE(std::isnan(values[50]));
    EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f), 99);
  });
}

TEST(RowExchangeValues, PartsOfRowsAreRefused) {
  make_inproc_world(2, {})->run([](Endpoint& endpoint) {
    std::vector<float> values(11);
    HostRows table({{values, 5}});
    EXPECT_THROW(
        all_reduce_rows(endpoint, endpoint.world_group(), table, Wire::kF32,
                        tags::kCollective, Traffic::kPayload),
        Error);
  });
}

}  // namespace
}  // namespace syncopate
