// The virtual clock of workers in one process: order, costs, determinism.
// Costs are powers of two, so that times are exact.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "unit/comm/endpoint_contract.h"

namespace syncopate {
namespace {

constexpr Traffic kPayload = Traffic::kPayload;

TEST(VirtualTime, TheSmallestClockRunsNextAndTiesGoByRank) {
  std::vector<std::pair<Time, int>> steps;
  make_inproc_world(2, {})->run([&](Endpoint& endpoint) {
    const double step_s = endpoint.rank() == 0 ? 1.0 : 0.25;
    while (endpoint.now() < 3) {
      steps.emplace_back(endpoint.now(), endpoint.rank());
      endpoint.advance(step_s);
    }
  });
  std::vector<std::pair<Time, int>> expected;
  for (int quarter = 0; quarter < 12; ++quarter) {
    if (quarter % 4 == 0) expected.emplace_back(quarter / 4, 0);
    expected.emplace_back(0.25 * quarter, 1);
  }
  EXPECT_EQ(steps, expected);
}

// 0.5 s of latency and 128 bytes per second; messages leave one after another.
TEST(VirtualTime, MessagesCostLatencyAndBandwidth) {
  make_inproc_world(2, {0.5, 128})->run([&](Endpoint& endpoint) {
    std::array<char, 256> first{}, second{};
    if (endpoint.rank() == 0) {
      endpoint.advance(1);
      const Request a =
          endpoint.isend({first.data(), 256}, 1, 1, kPayload);  // leaves at 3
      const Request b =
          endpoint.isend({second.data(), 128}, 1, 2, kPayload);  // at 4
      EXPECT_EQ(endpoint.now(), 1);
      EXPECT_FALSE(endpoint.test(a));
      endpoint.wait(a);
      EXPECT_EQ(endpoint.now(), 3);
      endpoint.wait(b);
      EXPECT_EQ(endpoint.now(), 4);
      const Request own = endpoint.isend({first.data(), 256}, 0, 3, kPayload);
      endpoint.wait(endpoint.irecv({second.data(), 256}, 0, 3));
      endpoint.wait(own);
      EXPECT_EQ(endpoint.now(), 4);  // a message to the sender is free
    } else {
      const Request b = endpoint.irecv({second.data(), 128}, 0, 2);
      const Request a = endpoint.irecv({first.data(), 256}, 0, 1);
      endpoint.wait(a);
      EXPECT_EQ(endpoint.now(), 3.5);
      EXPECT_FALSE(endpoint.test(b));
      endpoint.wait(b);
      EXPECT_EQ(endpoint.now(), 4.5);
      EXPECT_TRUE(endpoint.test(b));
    }
  });
}

TEST(VirtualTime, AReceiverThatIsLateWaitsForNothing) {
  make_inproc_world(2, {0.5, 0})->run([&](Endpoint& endpoint) {
    int value = 7;
    if (endpoint.rank() == 0) {
      endpoint.wait(endpoint.isend({&value, 4}, 1, 1, kPayload));
      EXPECT_EQ(endpoint.now(), 0);
    } else {
      endpoint.advance(2);
      endpoint.wait(endpoint.irecv({&value, 4}, 0, 1));
      EXPECT_EQ(endpoint.now(), 2);
    }
  });
}

// Returns each worker's clock after an all-reduce.
std::vector<Time> clocks_after(CollectiveAlgorithm algorithm,
                               int workers,
                               int64_t elems,
                               const NetworkCost& cost) {
  std::vector<Time> clocks(workers);
  make_inproc_world(workers, cost)->run([&](Endpoint& endpoint) {
    std::vector<float> values(elems, 1);
    all_reduce_sum(endpoint, endpoint.world_group(), values, algorithm,
                   Wire::kF32, tags::kCollective, kPayload);
    clocks[endpoint.rank()] = endpoint.now();
    EXPECT_EQ(values.back(), static_cast<float>(workers));
  });
  return clocks;
}
Time time_of(CollectiveAlgorithm algorithm,
             int workers,
             int64_t elems,
             const NetworkCost& cost) {
  return std::ranges::max(clocks_after(algorithm, workers, elems, cost));
}

TEST(VirtualTime, WithoutCostsNoTimePasses) {
  EXPECT_EQ(time_of(CollectiveAlgorithm::kRing, 3, 5000, {}), 0);
}

// A ring sends 2 (N - 1) messages of a chunk (256 bytes) one after the other: 6
// of 1.5 s. The native collective is modelled with the same cost.
TEST(VirtualTime, AllReduceCosts) {
  for (const auto algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kNative})
    EXPECT_EQ(clocks_after(algorithm, 4, 4 * 64, {0.5, 256}),
              std::vector<Time>(4, 9));
}

// Sums that overlap share the links, so that two take as long as one of both
// sizes: with 1 MB each and 4 workers, 2 * 6 / 4 of a second.
TEST(VirtualTime, ConcurrentNativeSumsShareTheLinks) {
  constexpr int64_t kElems = 1 << 18;
  const NetworkCost bandwidth{0, 4.0 * kElems};
  make_inproc_world(4, bandwidth)->run([&](Endpoint& endpoint) {
    std::vector<float> a(kElems, 1), b(kElems, 2);
    const auto sum = [&](std::vector<float>& values) {
      return endpoint.start("sum", [&](Endpoint& own) {
        all_reduce_sum(own, own.world_group(), values,
                       CollectiveAlgorithm::kNative, Wire::kF32,
                       tags::kCollective, kPayload);
      });
    };
    const Task first = sum(a), second = sum(b);
    endpoint.join(first);
    EXPECT_EQ(endpoint.now(), 1.5);
    endpoint.join(second);
    EXPECT_EQ(endpoint.now(), 3);
    EXPECT_EQ(a.back(), 4);
    EXPECT_EQ(b.back(), 8);
  });
}

// Large chunks travel in segments, but a link carries the same bytes.
TEST(VirtualTime, SegmentsDoNotMakeTheRingSlower) {
  constexpr int64_t kElems = 4 << 20;
  for (const Time clock :
       clocks_after(CollectiveAlgorithm::kRing, 4, kElems, {0, 4.0 * kElems}))
    EXPECT_NEAR(clock, 1.5, 1e-9);  // 2 (N - 1) / N of a second
}

// 8 workers with only a latency of 0.5 s: a ring takes 14 successive messages,
// recursive halving and doubling 6, a server 2.
TEST(VirtualTime, FewMessagesAreQuickestForTinyOnes) {
  const NetworkCost latency{0.5, 0};
  EXPECT_EQ(time_of(CollectiveAlgorithm::kRing, 8, 8, latency), 7);
  EXPECT_EQ(time_of(CollectiveAlgorithm::kButterfly, 8, 8, latency), 3);
  EXPECT_EQ(time_of(CollectiveAlgorithm::kBinaryBlocks, 8, 8, latency), 3);
  EXPECT_EQ(time_of(CollectiveAlgorithm::kParameterServer, 8, 8, latency), 1);
  // 6 workers: a fold and an unfold besides 2 log2 4. With binary blocks, the
  // block of 2 is ready when that of 4 is and spreads its sums meanwhile.
  EXPECT_EQ(time_of(CollectiveAlgorithm::kButterfly, 6, 8, latency), 3);
  EXPECT_EQ(time_of(CollectiveAlgorithm::kBinaryBlocks, 6, 8, latency), 2);
}

// Values that take a link one second: the links of a ring and a butterfly carry
// 2 (N - 1) / N of them for every N, those of the server N - 1.
TEST(VirtualTime, LargeOnesCostTheBytesOfTheBusiestLink) {
  constexpr int64_t kElems = 4 << 20;
  const NetworkCost bandwidth{0, 4.0 * kElems};
  const auto seconds = [&](CollectiveAlgorithm algorithm, int workers) {
    return time_of(algorithm, workers, kElems, bandwidth);
  };
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kRing, 8), 1.75, 1e-9);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kButterfly, 8), 1.75, 1e-9);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kBinaryBlocks, 8), 1.75, 1e-9);
  // Fold and unfold: 2 more, where the ring needs 5/3. The four segments that
  // a member of the core sends ahead arrive between those of the fold.
  const double segment = 1.0 / 64;
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kButterfly, 6), 3.5 + 4 * segment,
              1e-9);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kRing, 6), 5.0 / 3, 1e-4);
  // 1.5 by the block of 4, which waits for a quarter and gives one back.
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kBinaryBlocks, 6), 2 + 4 * segment,
              1e-9);
  // The first segment of all workers comes in, then 7 answers per segment.
  EXPECT_NEAR(seconds(CollectiveAlgorithm::kParameterServer, 8),
              7 + 7 * segment, 1e-9);
}

// With both costs: at most the sum of all latencies and the busiest link's
// time.
TEST(VirtualTime, RingKeepsItsBound) {
  const NetworkCost cost{1e-3, 4e6};
  for (const int n : {2, 3, 5, 8}) {
    for (const int64_t elems : {1000, 1'000'003}) {
      const double chunk = static_cast<double>((elems + n - 1) / n);
      EXPECT_LE(time_of(CollectiveAlgorithm::kRing, n, elems, cost),
                2 * (n - 1) * (1e-3 + chunk * 4 / 4e6) + 1e-9);
    }
  }
}

TEST(VirtualTime, RecvAnyGoesByArrival) {
  NetworkCost cost;
  cost.by_worker = {{0, 512}, {0, 64}, {0, 64}};
  make_inproc_world(3, cost)->run([&](Endpoint& endpoint) {
    std::array<char, 512> data{};
    if (endpoint.rank() == 1) {
      endpoint.wait(endpoint.isend({data.data(), 512}, 0, 1, kPayload));
    } else if (endpoint.rank() == 2) {
      endpoint.advance(1);
      endpoint.wait(endpoint.isend({data.data(), 64}, 0, 1, kPayload));
    } else {
      endpoint.advance(0.5);
      EXPECT_EQ(endpoint.recv_any({1, 1}).from, 2);
      EXPECT_EQ(endpoint.now(), 2);
      EXPECT_EQ(endpoint.recv_any({1, 1}).from, 1);
      EXPECT_EQ(endpoint.now(), 8);
    }
  });
}

// While its worker computes, a service gets messages at the moment they arrive,
// ordered by arrival, then by sender, regardless of size.
TEST(VirtualTime, AServiceIsGivenMessagesAsTheyArrive) {
  std::vector<std::pair<int, Time>> served;
  NetworkCost cost;
  cost.by_worker.assign(4, {0.5, 1 << 20});
  cost.by_worker[0].bytes_per_s = 1 << 30;
  make_inproc_world(4, cost)->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    if (rank == 0) {
      const Task service = endpoint.start("service", [&](Endpoint& own) {
        for (int i = 0; i < 6; ++i) {
          const Message message = own.recv_any({1, 2});
          served.emplace_back(message.from, own.now());
        }
      });
      endpoint.advance(100);
      endpoint.join(service);
      EXPECT_EQ(endpoint.now(), 100);
      return;
    }
    // Rank 1: 5 MiB, arriving at 5.5; ranks 2 and 3: 2 MiB, at 2.5 both; and
    // an empty message behind each.
    std::vector<char> data(rank == 1 ? 5 << 20 : 2 << 20);
    const ConstBytes large{data.data(), static_cast<int64_t>(data.size())};
    const Request first = endpoint.isend(large, 0, rank % 2 + 1, kPayload);
    const Request second = endpoint.isend({}, 0, 1, kPayload);
    endpoint.wait(first);
    endpoint.wait(second);
  });
  const std::vector<std::pair<int, Time>> expected = {
      {2, 2.5}, {2, 2.5}, {3, 2.5}, {3, 2.5}, {1, 5.5}, {1, 5.5}};
  EXPECT_EQ(served, expected);
}

TEST(VirtualTime, ATaskHasAClockOfItsOwn) {
  make_inproc_world(1, {})->run([](Endpoint& endpoint) {
    endpoint.advance(2);
    const Task task = endpoint.start("long", [](Endpoint& own) {
      EXPECT_EQ(own.now(), 2);
      own.advance(3);
    });
    endpoint.advance(1);
    EXPECT_EQ(endpoint.now(), 3);
    EXPECT_FALSE(endpoint.done(task));
    endpoint.join(task);
    EXPECT_EQ(endpoint.now(), 5);
    EXPECT_TRUE(endpoint.done(task));
  });
}

TEST(VirtualTime, PollingFindsTheMomentOfArrival) {
  make_inproc_world(3, {0.5, 0})->run([](Endpoint& endpoint) {
    int value = endpoint.rank();
    if (endpoint.rank() == 0) {
      endpoint.advance(2);
      endpoint.wait(endpoint.isend({&value, 4}, 1, 1, kPayload));
      endpoint.advance(5);
      endpoint.wait(endpoint.isend({&value, 4}, 2, 1, kPayload));
    } else {
      const Request request = endpoint.irecv({&value, 4}, 0, 1);
      while (!endpoint.test(request)) endpoint.yield();
      EXPECT_EQ(value, 0);
      EXPECT_EQ(endpoint.now(), endpoint.rank() == 1 ? 2.5 : 7.5);
    }
  });
}

TEST(VirtualTime, PollingWorksAtAStandstill) {
  std::string order;
  make_inproc_world(3, {})->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    int value = 0;
    const Request request = endpoint.irecv({&value, 4}, (rank + 1) % 3, 1);
    if (rank == 2) {
      endpoint.wait(endpoint.isend({&rank, 4}, 1, 1, kPayload));
    }
    while (!endpoint.test(request)) endpoint.yield();
    order += static_cast<char>('0' + rank);
    if (rank != 2) {
      endpoint.wait(endpoint.isend({&rank, 4}, (rank + 2) % 3, 1, kPayload));
    }
    EXPECT_EQ(endpoint.now(), 0);
  });
  EXPECT_EQ(order, "102");
}

// A server that answers in order of arrival, workers of different speeds, and
// tasks. Every run gives the same record.
std::string asynchronous_record() {
  std::string record;
  make_inproc_world(5, {1e-3, 1e5})->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    constexpr int kRounds = 12;
    if (rank == 0) {
      for (int i = 0; i < 4 * kRounds; ++i) {
        const Message message = endpoint.recv_any({1, 1});
        record += fmt::format("{}@{:a} ", message.from, endpoint.now());
        endpoint.wait(endpoint.isend({message.payload.data(), 8}, message.from,
                                     2, kPayload));
      }
      return;
    }
    for (int64_t round = 0; round < kRounds; ++round) {
      const Task task = endpoint.start("ask", [&](Endpoint& own) {
        int64_t answer = -1;
        const Request send = own.isend({&round, 8}, 0, 1, kPayload);
        own.wait(own.irecv({&answer, 8}, 0, 2));
        own.wait(send);
        EXPECT_EQ(answer, round);
      });
      endpoint.advance(0.01 * rank + 0.001 * static_cast<double>(round % 3));
      endpoint.join(task);
    }
  });
  return record;
}

TEST(VirtualTime, AsynchronousRunsRepeat) {
  const std::string first = asynchronous_record();
  EXPECT_GT(first.size(), 100u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(asynchronous_record(), first);
}

}  // namespace
}  // namespace syncopate
