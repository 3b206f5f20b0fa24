// The contract of collectives in every world, as functions that a test calls
// with a world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "unit/comm/endpoint_contract.h"

namespace syncopate::contract {

inline std::vector<int64_t> counts_for(int n) {
  return {0, 1, n - 1, n, n + 1, 7919, 1000003};
}

inline void check_all_reduce(World& world,
                             CollectiveAlgorithm algorithm,
                             Wire wire) {
  world.run([=](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    std::vector<int> hosts;
    for (int r = 0; r < n; ++r) hosts.push_back(endpoint.host_of(r));
    for (const int64_t count : counts_for(n)) {
      std::vector<float> values = integers(rank, count);
      const TrafficCounters before = endpoint.traffic();
      all_reduce_sum(endpoint, all, values, algorithm, wire, tags::kCollective,
                     kPayload);
      expect_sums(values, all.members, integer_of);
      EXPECT_EQ(endpoint.traffic().bytes_sent[0] - before.bytes_sent[0],
                all_reduce_bytes(algorithm, n, rank, count, wire, hosts))
          << "of " << count;
      EXPECT_EQ(endpoint.traffic().is_modelled,
                algorithm == CollectiveAlgorithm::kNative);
    }
  });
}

// Wire bf16 with values that need rounding: all members end with the same bits,
// close to the sum.
inline void check_bf16_agrees(World& world, CollectiveAlgorithm algorithm) {
  world.run([=](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    constexpr int64_t kCount = 1001;
    std::vector<float> values(kCount);
    for (int64_t i = 0; i < kCount; ++i) values[i] = value_of(rank, i);
    all_reduce_sum(endpoint, all, values, algorithm, Wire::kBf16,
                   tags::kCollective, kPayload);
    for (int64_t i = 0; i < kCount; ++i) {
      double sum = 0, size = 0;
      for (int r = 0; r < n; ++r) {
        sum += value_of(r, i);
        size += std::abs(value_of(r, i));
      }
      // n roundings to 8 bits, each of a partial sum of at most `size`.
      EXPECT_LE(std::abs(values[i] - sum), n * size / 256) << i;
    }
    const auto parts = gather_bytes(endpoint, all, view(values), 0,
                                    tags::kCollective, kPayload);
    for (size_t p = 0; p < parts.size(); ++p) {
      EXPECT_TRUE(parts[p] == parts[0]) << "member " << p;
    }
  });
}

// Two disjoint groups at the same time, not in rank order.
inline void check_groups(World& world, CollectiveAlgorithm algorithm) {
  world.run([=](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    std::vector<int> members;
    for (int r = n - 1; r >= 0; --r) {
      if (r % 2 == rank % 2) members.push_back(r);
    }
    const Group half = endpoint.group(members);
    EXPECT_EQ(half.members[half.position], rank);
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> values = integers(rank, 1009, repeat);
      all_reduce_sum(endpoint, half, values, algorithm, Wire::kF32,
                     tags::kCollective, kPayload);
      expect_sums(values, members, [repeat](int r, int64_t i) {
        return integer_of(r, i + repeat);
      });
    }
  });
}

inline void check_broadcast_and_gather(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    for (int root = 0; root < n; ++root) {
      std::vector<int> data(3001, -1);
      if (rank == root) std::iota(data.begin(), data.end(), root);
      broadcast(endpoint, all, span_of(data), root, tags::kCollective,
                Traffic::kBroadcast);
      EXPECT_EQ(data.front(), root);
      EXPECT_EQ(data.back(), root + 3000);

      std::vector<int> own(rank, 7 * rank);  // empty on worker 0
      const auto parts = gather_bytes(endpoint, all, view(own), root,
                                      tags::kCollective, kPayload);
      EXPECT_EQ(parts.size(), rank == root ? static_cast<size_t>(n) : 0u);
      for (size_t p = 0; p < parts.size(); ++p) {
        std::vector<int> got(parts[p].size() / 4);
        if (p > 0) std::memcpy(got.data(), parts[p].data(), parts[p].size());
        EXPECT_EQ(got, std::vector<int>(p, 7 * static_cast<int>(p)));
      }
    }
    std::vector<double> mine(rank + 1, 0.5 * rank);
    const auto everyone =
        all_gather(endpoint, all, mine, tags::kCollective, kPayload);
    EXPECT_EQ(everyone.size(), static_cast<size_t>(n));
    for (int p = 0; p < n; ++p) {
      EXPECT_EQ(everyone[p], std::vector<double>(p + 1, 0.5 * p));
    }
  });
}

inline void check_agree(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size();
    const Group all = endpoint.world_group();
    const double x = endpoint.rank() + 1.0;
    const auto agreed = [&](Combine combine) {
      std::vector<double> values = {x, -x, 0.1 * x};
      agree(endpoint, all, values, combine, tags::kControl);
      return values;
    };
    double tenths = 0.1;
    for (int r = 1; r < n; ++r) tenths += 0.1 * (r + 1.0);
    const double sum = n * (n + 1) / 2.0;
    EXPECT_EQ(agreed(Combine::kSum), (std::vector<double>{sum, -sum, tenths}));
    EXPECT_EQ(agreed(Combine::kMin),
              (std::vector<double>{1, -1.0 * n, 0.1 * 1.0}));
    EXPECT_EQ(agreed(Combine::kMax),
              (std::vector<double>{1.0 * n, -1, 0.1 * n}));
  });
}

// No member leaves a barrier before the last one has entered it.
inline void check_barrier(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size();
    const Group all = endpoint.world_group();
    for (int last = 0; last < n; ++last) {
      const double slept = endpoint.rank() == last ? 0.02 : 0;
      const Time start = endpoint.now();
      if (slept > 0) {
        endpoint.advance(slept);
        // A virtual clock may end slightly before it because of rounding.
        while (endpoint.now() - start < 0.99 * slept) endpoint.yield();
      }
      const Time came = endpoint.now();
      barrier(endpoint, all, tags::kControl);
      std::vector<double> times = {came, -endpoint.now()};
      agree(endpoint, all, times, Combine::kMax, tags::kControl);
      EXPECT_LE(times[0], -times[1]);
    }
  });
}

// The sum, with rounding, of values at every member; all members must end with
// the same bits. For comparisons between worlds.
inline std::vector<float> rounded_sum(World& world,
                                      CollectiveAlgorithm algorithm,
                                      int64_t count,
                                      Wire wire) {
  std::vector<float> of_rank_0;
  world.run([&](Endpoint& endpoint) {
    const Group all = endpoint.world_group();
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = value_of(endpoint.rank(), i);
    all_reduce_sum(endpoint, all, values, algorithm, wire, tags::kCollective,
                   kPayload);
    const auto parts = gather_bytes(endpoint, all, view(values), 0,
                                    tags::kCollective, Traffic::kControl);
    for (size_t p = 0; p < parts.size(); ++p) {
      EXPECT_TRUE(parts[p] == parts[0]) << "member " << p;
    }
    if (endpoint.rank() == 0) of_rank_0 = values;
  });
  return of_rank_0;
}

// A group of all but one, then one of the first and the last. The others
// proceed meanwhile and later communicate with the group's members again.
inline void check_partial_groups(World& world, CollectiveAlgorithm algorithm) {
  world.run([=](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    for (int out = -1; out < n; ++out) {
      std::vector<int> members;
      for (int r = 0; r < n; ++r) {
        if (out < 0 ? r == 0 || r == n - 1 : r != out) members.push_back(r);
      }
      const bool is_in = std::count(members.begin(), members.end(), rank) > 0;
      std::vector<float> values = integers(rank, 70'001);
      if (is_in) {
        all_reduce_sum(endpoint, endpoint.group(members), values, algorithm,
                       Wire::kF32, tags::kCollective, kPayload);
      }
      expect_sums(values, is_in ? members : std::vector<int>{rank}, integer_of,
                  "without " + std::to_string(out));
    }
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  });
}

// All algorithms at the same time, in tasks with separate tags that every
// worker starts in a different order.
inline void check_algorithms_at_once(World& world) {
  world.run([](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const Group all = endpoint.world_group();
    constexpr auto kAlgorithms = std::to_array(
        {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kButterfly,
         CollectiveAlgorithm::kBinaryBlocks,
         CollectiveAlgorithm::kParameterServer,
         CollectiveAlgorithm::kHierarchical});
    constexpr size_t kTasks = 2 * kAlgorithms.size();
    std::vector<std::vector<float>> values(kTasks);
    std::vector<Task> tasks(kTasks);
    for (size_t k = 0; k < kTasks; ++k) {
      const size_t t = (k + static_cast<size_t>(rank)) % kTasks;
      values[t] = integers(rank, 150'001, static_cast<int64_t>(t));
      tasks[t] = endpoint.start("collective", [&, t](Endpoint& own) {
        all_reduce_sum(own, all, values[t], kAlgorithms[t / 2],
                       t % 2 == 0 ? Wire::kF32 : Wire::kBf16,
                       tags::kBucket + static_cast<Tag>(t), kPayload);
      });
    }
    for (const Task& task : tasks) endpoint.join(task);
    for (size_t t = 0; t < kTasks; ++t)
      expect_sums(
          values[t], all.members,
          [t](int r, int64_t i) {
            return integer_of(r, i + static_cast<int64_t>(t));
          },
          "task " + std::to_string(t));
  });
}

}  // namespace syncopate::contract
