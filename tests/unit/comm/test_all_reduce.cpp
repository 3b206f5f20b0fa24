// The schedules of all-reduce algorithms (senders, receivers, ranges), the
// order of summation, bytes, and the table of keywords.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <deque>
#include <map>

#include "comm/binary_blocks.h"
#include "comm/butterfly.h"
#include "comm/parameter_server.h"
#include "unit/comm/collective_contract.h"

namespace syncopate {
namespace {

constexpr auto kButterfly = CollectiveAlgorithm::kButterfly;
constexpr auto kBinaryBlocks = CollectiveAlgorithm::kBinaryBlocks;
constexpr auto kParameterServer = CollectiveAlgorithm::kParameterServer;
constexpr auto kHierarchical = CollectiveAlgorithm::kHierarchical;

using StepsOf = ReduceSteps (*)(int group_size, int position, int64_t elems);

// Checks that receivers take every range in the order in which it is sent, that
// no cycle of members wait for each other, and that the owned ranges partition
// the whole.
void check_steps(StepsOf steps_of, int n, int64_t elems) {
  std::vector<ReduceSteps> members;
  for (int p = 0; p < n; ++p) members.push_back(steps_of(n, p, elems));
  std::map<std::pair<int, int>, std::deque<ElemRange>> under_way;
  std::vector<size_t> next(n, 0);
  std::vector<bool> has_sent(n, false);
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    for (int p = 0; p < n; ++p) {
      if (next[p] == members[p].steps.size()) continue;
      const ExchangeStep& step = members[p].steps[next[p]];
      ASSERT_TRUE(step.peer >= 0 && step.peer < n && step.peer != p);
      if (!has_sent[p] && step.out.elems > 0) {
        under_way[{p, step.peer}].push_back(step.out);
      }
      has_moved = has_moved || !has_sent[p];
      has_sent[p] = true;
      if (step.in.elems > 0) {
        auto& queue = under_way[{step.peer, p}];
        if (queue.empty()) continue;
        EXPECT_EQ(queue.front().first, step.in.first);
        EXPECT_EQ(queue.front().elems, step.in.elems);
        queue.pop_front();
      }
      ++next[p];
      has_sent[p] = false;
      has_moved = true;
    }
  }
  std::map<int64_t, int64_t> owned;  // first -> elems
  for (int p = 0; p < n; ++p) {
    EXPECT_EQ(next[p], members[p].steps.size()) << p << " of " << n << " waits";
    if (members[p].own.elems == 0) continue;
    EXPECT_TRUE(
        owned.emplace(members[p].own.first, members[p].own.elems).second);
  }
  for (const auto& [pair, queue] : under_way) {
    EXPECT_TRUE(queue.empty()) << pair.first << " to " << pair.second;
  }
  int64_t end = 0;
  for (const auto& [first, length] : owned) {
    EXPECT_EQ(first, end);
    end += length;
  }
  EXPECT_EQ(end, elems);
}

TEST(AllReduce, StepsFitTogetherForAnyGroup) {
  for (int n = 1; n <= 40; ++n) {
    for (const int64_t elems : {0, 1, 2, 7, 1000, 65'537}) {
      check_steps(butterfly_steps, n, elems);
      check_steps(binary_blocks_steps, n, elems);
    }
  }
}

// For each element N - 1 values travel to be summed, and then N - 1 copies of
// the sum. All members together thus send 2 (N-1) M.
TEST(AllReduce, TogetherAllSendTheSame) {
  for (const auto& [algorithm, text] : collective_table()) {
    for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 100}) {
      for (const int64_t elems : {0, 1, 2, 6, 1000003}) {
        int64_t total = 0;
        for (int p = 0; p < n; ++p) {
          const int64_t bytes =
              all_reduce_bytes(algorithm, n, p, elems, Wire::kF32);
          EXPECT_EQ(2 * all_reduce_bytes(algorithm, n, p, elems, Wire::kBf16),
                    bytes);
          total += bytes;
        }
        EXPECT_EQ(total, 4 * 2 * (n - 1) * elems)
            << name_of(algorithm) << " " << n << " " << elems;
      }
    }
  }
}

// The headers' formulas for each position, with chunks of equal size.
TEST(AllReduce, BytesOfEachMember) {
  constexpr int64_t kElems = 64;
  const auto sent = [&](CollectiveAlgorithm algorithm, int n) {
    std::vector<int64_t> elems;
    for (int p = 0; p < n; ++p) {
      elems.push_back(all_reduce_bytes(algorithm, n, p, kElems, Wire::kF32) /
                      4);
    }
    return elems;
  };
  using Elems = std::vector<int64_t>;
  EXPECT_EQ(sent(kButterfly, 8), Elems(8, 112));
  EXPECT_EQ(sent(kBinaryBlocks, 8), Elems(8, 112));
  EXPECT_EQ(sent(kButterfly, 6), (Elems{160, 64, 160, 64, 96, 96}));
  // Blocks of sizes 4 and 2, then of sizes 4, 2 and 1.
  EXPECT_EQ(sent(kBinaryBlocks, 6), (Elems{112, 112, 112, 112, 96, 96}));
  EXPECT_EQ(sent(kBinaryBlocks, 7), (Elems{112, 112, 112, 112, 128, 128, 64}));
  EXPECT_EQ(sent(kParameterServer, 4), (Elems{192, 64, 64, 64}));
}

// The order that the headers describe, as a recursion over sets of members.
float tree_sum(std::span<const float> leaves) {
  const size_t n = leaves.size();
  if (n == 1) return leaves[0];
  std::vector<float> sums(n / 2);
  for (size_t q = 0; q < n / 2; ++q) sums[q] = leaves[q] + leaves[q + n / 2];
  return tree_sum(sums);
}

float butterfly_order(std::span<const float> x) {
  const size_t core = std::bit_floor(x.size()), folded = x.size() - core;
  std::vector<float> leaves;
  for (size_t p = 0; p < x.size(); ++p) {
    if (p >= 2 * folded) {
      leaves.push_back(x[p]);
    } else if (p % 2 == 0) {
      leaves.push_back(x[p] + x[p + 1]);
    }
  }
  return tree_sum(leaves);
}

float binary_blocks_order(std::span<const float> x) {
  const size_t block = std::bit_floor(x.size());
  const float sum = tree_sum(x.first(block));
  if (block == x.size()) return sum;
  return sum + binary_blocks_order(x.subspan(block));
}

float server_order(std::span<const float> x) {
  float sum = x[0];
  for (size_t p = 1; p < x.size(); ++p) sum += x[p];
  return sum;
}

TEST(AllReduce, SumsInTheDocumentedOrder) {
  const std::vector<
      std::pair<CollectiveAlgorithm, float (*)(std::span<const float>)>>
      orders = {{kButterfly, butterfly_order},
                {kBinaryBlocks, binary_blocks_order},
                {kParameterServer, server_order}};
  for (const auto& [algorithm, order] : orders) {
    for (const int n : {2, 3, 5, 6, 7, 8}) {
      constexpr int64_t kCount = 200'003;
      const auto world = make_inproc_world(n, {});
      const auto sums =
          contract::rounded_sum(*world, algorithm, kCount, Wire::kF32);
      int64_t wrong = 0, differs = 0;
      for (int64_t i = 0; i < kCount; ++i) {
        std::vector<float> x(n);
        for (int p = 0; p < n; ++p) x[p] = contract::value_of(p, i);
        wrong += sums[i] != order(x);
        std::reverse(x.begin(), x.end());
        differs += sums[i] != order(x);
      }
      EXPECT_EQ(wrong, 0) << static_cast<int>(algorithm) << " by " << n;
      if (n > 2 && n != 4 && n != 8) {
        EXPECT_GT(differs, kCount / 100) << "the data would show no order";
      }
    }
  }
}

// Where the chunks of a ring of n begin, and where the last one ends.
std::vector<int64_t> chunk_limits(int64_t elems, int n) {
  std::vector<int64_t> limits;
  for (int c = 0; c <= n; ++c)
    limits.push_back(elems / n * c + std::min<int64_t>(elems % n, c));
  return limits;
}

// x[c + 1] + x[c + 2] + ... + x[c], with c the chunk of element i.
float ring_order(std::span<const float> x, int64_t i, int64_t elems) {
  const auto n = static_cast<int>(x.size());
  const auto limits = chunk_limits(elems, n);
  const auto c = std::ranges::upper_bound(limits, i) - limits.begin() - 1;
  float sum = x[(c + 1) % n];
  for (int k = 2; k <= n; ++k) sum += x[(c + k) % n];
  return sum;
}

float hierarchical_order(std::span<const float> x,
                         size_t per_host,
                         int64_t i,
                         int64_t elems) {
  std::vector<float> sums;
  int64_t begin = 0, end = elems;  // of the slice of element i
  for (size_t first = 0; first < x.size(); first += per_host) {
    const size_t n = std::min(per_host, x.size() - first);
    sums.push_back(ring_order(x.subspan(first, n), i, elems));
    const auto limits = chunk_limits(elems, static_cast<int>(n));
    const auto after = std::ranges::upper_bound(limits, i);
    begin = std::max(begin, after[-1]);
    end = std::min(end, *after);
  }
  return ring_order(sums, i - begin, end - begin);
}

TEST(AllReduce, HierarchicalSumsInTheDocumentedOrder) {
  for (const auto& [n, per_host] :
       {std::pair{4, 2}, {6, 2}, {6, 3}, {3, 2}, {5, 3}, {8, 3}}) {
    constexpr int64_t kCount = 10'007;
    NetworkCost cost;
    cost.island = per_host;
    const auto world = make_inproc_world(n, cost);
    const auto sums =
        contract::rounded_sum(*world, kHierarchical, kCount, Wire::kF32);
    int64_t wrong = 0, differs = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      std::vector<float> x(n);
      for (int p = 0; p < n; ++p) x[p] = contract::value_of(p, i);
      wrong += sums[i] != hierarchical_order(x, per_host, i, kCount);
      differs += sums[i] != ring_order(x, i, kCount);
    }
    EXPECT_EQ(wrong, 0) << n << " by " << per_host;
    EXPECT_GT(differs, kCount / 100) << "the data would show no order";
  }
}

// Inside a host of L, 2 (L - 1) / L of 240 elements, and of every slice
// 2 (H - 1) / H between H hosts.
TEST(AllReduce, HierarchicalBytesOfEachMember) {
  const auto sent = [](std::vector<int> hosts) {
    std::vector<int64_t> elems;
    const int n = static_cast<int>(hosts.size());
    for (int p = 0; p < n; ++p)
      elems.push_back(
          all_reduce_bytes(kHierarchical, n, p, 240, Wire::kF32, hosts) / 4);
    return elems;
  };
  using Elems = std::vector<int64_t>;
  EXPECT_EQ(sent({0, 0, 0, 0, 4, 4, 4, 4}), Elems(8, 360 + 60));
  EXPECT_EQ(sent({5, 3, 5, 3}), Elems(4, 240 + 120));
  EXPECT_EQ(sent({0, 1, 2, 3}), Elems(4, 360));
  EXPECT_EQ(sent({7, 7, 7}), Elems(3, 320));
  // Chunks of 80 and of 120, hence slices of 80, 40, 40 and 80.
  EXPECT_EQ(sent({0, 0, 0, 3, 3}),
            (Elems{320 + 80, 320 + 80, 320 + 80, 240 + 120, 240 + 120}));
}

// Values are rounded to bf16 for transfer, but sums are formed in fp32: at a
// server 256 + 1 + 1 gives 258, where sums in bf16 would stay at 256.
TEST(AllReduce, SumsOfBf16AreFormedInF32) {
  make_inproc_world(3, {})->run([](Endpoint& endpoint) {
    std::vector<float> values = {endpoint.rank() == 0 ? 256.0f : 1.0f,
                                 1.0f + 0x1p-9f};
    all_reduce_sum(endpoint, endpoint.world_group(), values, kParameterServer,
                   Wire::kBf16, tags::kCollective, Traffic::kPayload);
    EXPECT_EQ(values[0], 258.0f);
    // The server's own value is not rounded before the sum (3 + 2^-9); the sum
    // is.
    EXPECT_EQ(values[1], 3.0f);
  });
}

// A server on a machine of its own gives the sums of one on a worker. It sends
// what all members of its group send, which counts as sent by its worker.
TEST(AllReduce, ServersApartSumLikeOthers) {
  constexpr int64_t kCount = 200'003;
  NetworkCost cost{1e-3, 1e6};
  cost.has_servers_apart = true;
  cost.server_bytes_per_s = 2e6;
  for (const int n : {1, 2, 3, 5, 8}) {
    const auto world = make_inproc_world(n, cost);
    const auto sums =
        contract::rounded_sum(*world, kParameterServer, kCount, Wire::kF32);
    const auto expected = contract::rounded_sum(
        *make_inproc_world(n, {}), kParameterServer, kCount, Wire::kF32);
    EXPECT_EQ(sums, expected) << n;
    if (n > 1) contract::check_bf16_agrees(*world, kParameterServer);
  }
  // Two groups at once.
  make_inproc_world(5, cost)->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const bool is_first = rank == 4 || rank == 1;
    const Group group = endpoint.group(is_first ? Ranks({4, 1})  //
                                                : Ranks({0, 2, 3}));
    std::vector<float> values(kCount, static_cast<float>(1 << rank));
    all_reduce_sum(endpoint, group, values, kParameterServer, Wire::kF32,
                   tags::kCollective, Traffic::kPayload);
    EXPECT_EQ(std::ranges::count(values, is_first ? 18 : 13), kCount);
    const int64_t sent = endpoint.traffic().bytes_sent[0];
    EXPECT_EQ(sent, 4 * kCount * (group.position == 0 ? 1 + group.size() : 1));
  });
}

TEST(AllReduce, Keywords) {
  EXPECT_EQ(collective_table().size(), 6u);
  for (const auto& row : collective_table()) EXPECT_FALSE(row.second.empty());
  EXPECT_EQ(name_of(kBinaryBlocks), "binary_blocks");
}

}  // namespace
}  // namespace syncopate
