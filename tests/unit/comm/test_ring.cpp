// The ring's arithmetic: order of summation and bytes; rounding to bf16.
// SPDX-License-Identifier: Apache-2.0
#include "comm/ring.h"

#include <bit>
#include <limits>

#include "unit/comm/collective_contract.h"

namespace syncopate {
namespace {

// Chunk c is summed in the order c+1, c+2, ..., c in every world.
TEST(Ring, SumsInTheDocumentedOrder) {
  for (const int n : {2, 3, 5}) {
    constexpr int64_t kCount = 200003;  // several segments per chunk for n = 2
    const auto world = make_inproc_world(n, {});
    const auto sums = contract::rounded_sum(*world, CollectiveAlgorithm::kRing,
                                            kCount, Wire::kF32);
    const int64_t base = kCount / n, longer = kCount % n;
    int64_t i = 0, wrong = 0, rounded = 0;
    for (int c = 0; c < n; ++c) {
      const int64_t end = i + base + (c < longer ? 1 : 0);
      for (; i < end; ++i) {
        float sum = contract::value_of((c + 1) % n, i);
        double exact = sum;
        for (int k = 2; k <= n; ++k) {
          sum += contract::value_of((c + k) % n, i);
          exact += contract::value_of((c + k) % n, i);
        }
        wrong += sums[i] != sum;
        rounded += sum != exact;
      }
    }
    EXPECT_EQ(i, kCount);
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(rounded, kCount / 20) << "the data would show no other order";
  }
}

TEST(Ring, AllMembersEndWithTheSameBits) {
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    make_inproc_world(5, {})->run([&](Endpoint& endpoint) {
      const Group all = endpoint.world_group();
      std::vector<float> values(70001);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = contract::value_of(endpoint.rank(), i);
      }
      ring_all_reduce(endpoint, all, values, wire, 3, Traffic::kPayload);
      const auto parts = gather_bytes(endpoint, all, contract::view(values), 0,
                                      4, Traffic::kControl);
      for (const auto& part : parts) EXPECT_TRUE(part == parts[0]);
    });
  }
}

TEST(Ring, EveryMemberSendsAllChunksButTwo) {
  constexpr auto kRing = CollectiveAlgorithm::kRing;
  EXPECT_EQ(all_reduce_bytes(kRing, 1, 0, 100, Wire::kF32), 0);
  EXPECT_EQ(all_reduce_bytes(kRing, 4, 3, 400, Wire::kF32), 4 * 600);
  EXPECT_EQ(all_reduce_bytes(kRing, 4, 3, 400, Wire::kBf16), 2 * 600);
  // Chunks of 2, 2 and 1; the own one and the successor's are not sent.
  EXPECT_EQ(all_reduce_bytes(kRing, 3, 0, 5, Wire::kF32), 4 * 6);
  EXPECT_EQ(all_reduce_bytes(kRing, 3, 1, 5, Wire::kF32), 4 * 7);
  EXPECT_EQ(all_reduce_bytes(kRing, 3, 2, 5, Wire::kF32), 4 * 7);
}

TEST(Wire, Bf16RoundsToNearestEven) {
  const auto of = [](uint32_t bits) {
    return bf16_of(std::bit_cast<float>(bits));
  };
  EXPECT_EQ(of(0x3f800000), 0x3f80);  // 1
  EXPECT_EQ(of(0x3f808000), 0x3f80);  // a tie: to even, down
  EXPECT_EQ(of(0x3f818000), 0x3f82);  // a tie: to even, up
  EXPECT_EQ(of(0x3f808001), 0x3f81);
  EXPECT_EQ(of(0xbf818000), 0xbf82);
  EXPECT_EQ(of(0x7f7fffff), 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(of(0xff800000), 0xff80);
  EXPECT_EQ(of(0x80000000), 0x8000);
  EXPECT_TRUE(std::isnan(from_bf16(of(0x7f800001))));
  EXPECT_TRUE(std::isnan(from_bf16(of(0xffffffff))));
  EXPECT_EQ(from_bf16(0x4049), 3.140625f);
}

}  // namespace
}  // namespace syncopate
