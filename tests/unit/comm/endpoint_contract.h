// What every world promises of its endpoints, as functions that a test calls
// with a world: unit tests with workers in one process, tests/mpi with ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "comm/world.h"

namespace syncopate::contract {

inline constexpr Traffic kPayload = Traffic::kPayload;

// Values from a formula: any rank can make any other's.
inline float value_of(int rank, int64_t i) {
  const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u +
                         static_cast<uint32_t>(rank) * 97u;
  return std::ldexp(static_cast<float>(mixed >> 9), -20) - 3.7f +
         static_cast<float>(rank) * 0.013f;
}
// Small integers: sums are exact in fp32, and in bf16 up to 256.
inline float integer_of(int rank, int64_t i) {
  return static_cast<float>((i + 3 * rank) % 17 - 8);
}

template <typename T>
ConstBytes view(const std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size() * sizeof(T))};
}
template <typename T>
Bytes span_of(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size() * sizeof(T))};
}

inline std::vector<int64_t> counts_for(int n) {
  return {0, 1, n - 1, n, n + 1, 7919, 1000003};
}

// Between a pair, messages of one tag arrive in the order sent, and tags do
// not meet; receives may be posted before or after.
inline void check_order(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    constexpr int kMessages = 20;
    std::vector<int64_t> out(2 * kMessages), in(2 * kMessages, -1);
    std::vector<Request> requests;
    for (int i = 0; i < 2 * kMessages; ++i) out[i] = 1000 * rank + i;
    for (int i = 0; i < kMessages; ++i) {
      requests.push_back(endpoint.irecv({&in[i], 8}, from, 5));
    }
    for (int i = 0; i < kMessages; ++i) {
      requests.push_back(
          endpoint.isend({&out[kMessages + i], 8}, to, 6, kPayload));
      requests.push_back(endpoint.isend({&out[i], 8}, to, 5, kPayload));
    }
    for (int i = 0; i < kMessages; ++i) {
      requests.push_back(endpoint.irecv({&in[kMessages + i], 8}, from, 6));
    }
    for (const Request& request : requests) endpoint.wait(request);
    for (int i = 0; i < 2 * kMessages; ++i) {
      EXPECT_EQ(in[i], 1000 * from + i);
    }
    for (const Request& request : requests) EXPECT_TRUE(endpoint.test(request));
  });
}

inline void check_zero_bytes(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Request send =
        endpoint.isend({}, (rank + 1) % n, 9, Traffic::kControl);
    endpoint.wait(endpoint.irecv({}, (rank + n - 1) % n, 9));
    endpoint.wait(send);
    EXPECT_EQ(endpoint.traffic().messages_sent[3], 1);
    EXPECT_EQ(endpoint.traffic().bytes_sent[3], 0);
  });
}

// `bytes` between neighbours, by a known receive and then by recv_any.
inline void check_large(World& world, int64_t bytes) {
  world.run([bytes](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    const auto byte_of = [](int r, size_t i) {
      return static_cast<std::byte>((i * 31 + i / 4099 + r) & 0xff);
    };
    std::vector<std::byte> out(bytes), in(bytes);
    for (size_t i = 0; i < out.size(); ++i) out[i] = byte_of(rank, i);
    const auto is_right = [&](const std::vector<std::byte>& got) {
      if (got.size() != out.size()) return false;
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != byte_of(from, i)) return false;
      }
      return true;
    };
    const Request receive = endpoint.irecv(span_of(in), from, 2);
    const Request first = endpoint.isend(view(out), to, 2, kPayload);
    endpoint.wait(receive);
    endpoint.wait(first);
    EXPECT_TRUE(is_right(in));
    const Request second = endpoint.isend(view(out), to, 3, kPayload);
    const Message message = endpoint.recv_any({3, 4});
    endpoint.wait(second);
    EXPECT_EQ(message.from, from);
    EXPECT_EQ(message.tag, 3);
    EXPECT_TRUE(is_right(message.payload));
  });
}

// Rank 0 serves all others; messages outside the range are left for receives
// posted later; each sender's own come in order.
inline void check_recv_any(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    constexpr int kMessages = 10;
    if (rank > 0) {
      std::vector<int> values(kMessages);
      std::iota(values.begin(), values.end(), 0);
      std::vector<Request> requests;
      const int early = 100 + rank, late = 200 + rank;
      requests.push_back(endpoint.isend({&early, 4}, 0, 50, kPayload));
      for (int i = 0; i < kMessages; ++i) {
        requests.push_back(
            endpoint.isend({&values[i], 4}, 0, 10 + i % 3, kPayload));
      }
      requests.push_back(endpoint.isend({&late, 4}, 0, 50, kPayload));
      for (const Request& request : requests) endpoint.wait(request);
      return;
    }
    std::vector<std::vector<int>> seen(n);
    for (int i = 0; i < kMessages * (n - 1); ++i) {
      const Message message = endpoint.recv_any({10, 12});
      int value = -1;
      EXPECT_EQ(message.payload.size(), 4u);
      std::memcpy(&value, message.payload.data(), 4);
      EXPECT_EQ(message.tag, 10 + value % 3);
      seen[message.from].push_back(value);
    }
    for (int from = 1; from < n; ++from) {
      EXPECT_EQ(seen[from].size(), static_cast<size_t>(kMessages));
      for (size_t i = 0; i < seen[from].size(); ++i) {
        EXPECT_EQ(seen[from][i], static_cast<int>(i)) << "from " << from;
      }
      int early = 0, late = 0;
      endpoint.wait(endpoint.irecv({&early, 4}, from, 50));
      endpoint.wait(endpoint.irecv({&late, 4}, from, 50));
      EXPECT_EQ(early, 100 + from);
      EXPECT_EQ(late, 200 + from);
    }
  });
}

// A service answers on every worker while its host does something else.
inline void check_service(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    int answered = 0;
    const Task service = endpoint.start("service", [&](Endpoint& own) {
      for (int i = 0; i < n; ++i) {
        const Message question = own.recv_any({20, 20});
        int value = 0;
        std::memcpy(&value, question.payload.data(), 4);
        value = value * 10 + own.rank();
        own.wait(own.isend({&value, 4}, question.from, 21, kPayload));
        ++answered;
      }
    });
    std::vector<int> answers(n, -1);
    const int question = rank + 1;
    for (int to = 0; to < n; ++to) {
      const Request send = endpoint.isend({&question, 4}, to, 20, kPayload);
      endpoint.wait(endpoint.irecv({&answers[to], 4}, to, 21));
      endpoint.wait(send);
    }
    for (int to = 0; to < n; ++to) EXPECT_EQ(answers[to], question * 10 + to);
    endpoint.join(service);
    EXPECT_TRUE(endpoint.done(service));
    EXPECT_EQ(answered, n);
    barrier(endpoint, all, tags::kControl);
  });
}

// Two all-reduces beside the worker, joined in reverse order, and one of the
// worker's own among them.
inline void check_tasks_overlap(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    std::vector<std::vector<float>> values(3, std::vector<float>(10007));
    for (int b = 0; b < 3; ++b) {
      for (size_t i = 0; i < values[b].size(); ++i) {
        values[b][i] = integer_of(rank + b, i);
      }
    }
    const auto reduce = [&](Endpoint& own, int b) {
      all_reduce_sum(own, all, values[b], CollectiveAlgorithm::kRing,
                     Wire::kF32, tags::kBucket + b, kPayload);
    };
    const Task first =
        endpoint.start("bucket 0", [&](Endpoint& own) { reduce(own, 0); });
    const Task second =
        endpoint.start("bucket 1", [&](Endpoint& own) { reduce(own, 1); });
    reduce(endpoint, 2);
    endpoint.join(second);
    endpoint.join(first);
    for (int b = 0; b < 3; ++b) {
      for (size_t i = 0; i < values[b].size(); i += 13) {
        float sum = 0;
        for (int r = 0; r < n; ++r) sum += integer_of(r + b, i);
        EXPECT_EQ(values[b][i], sum) << "bucket " << b << " at " << i;
      }
    }
  });
}

// A task's exception is its joiner's; the world goes on.
inline void check_task_error(World& world) {
  world.run([](Endpoint& endpoint) {
    const Task task = endpoint.start("failing", [](Endpoint&) {
      fail(ExitCode::kDiverged, "as it should");
    });
    bool was_thrown = false;
    try {
      endpoint.join(task);
    } catch (const Error& error) {
      was_thrown = error.code() == ExitCode::kDiverged;
    }
    EXPECT_TRUE(was_thrown);
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  });
}

// Of a task that nobody joins, the end of the run tells.
inline void check_unjoined_task_error(World& world) {
  try {
    world.run([](Endpoint& endpoint) {
      endpoint.start("failing", [](Endpoint&) {
        fail(ExitCode::kDiverged, "as it should");
      });
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged) << error.what();
  }
}

inline void check_size_mismatch(World& world) {
  for (const int64_t sent : {8, 24}) {
    world.run([sent](Endpoint& endpoint) {
      const int n = endpoint.size(), rank = endpoint.rank();
      char out[24] = {}, in[24] = {};
      const Request receive = endpoint.irecv({in, 16}, (rank + n - 1) % n, 30);
      const Request send =
          endpoint.isend({out, sent}, (rank + 1) % n, 30, kPayload);
      bool was_thrown = false;
      try {
        endpoint.wait(receive);
      } catch (const Error& error) {
        was_thrown = error.code() == ExitCode::kInternal;
      }
      EXPECT_TRUE(was_thrown) << sent << " bytes sent";
      endpoint.wait(send);
      barrier(endpoint, endpoint.world_group(), tags::kControl);
    });
  }
}

inline void check_all_reduce(World& world,
                             CollectiveAlgorithm algorithm,
                             Wire wire) {
  world.run([=](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    for (const int64_t count : counts_for(n)) {
      std::vector<float> values(count);
      for (int64_t i = 0; i < count; ++i) values[i] = integer_of(rank, i);
      const TrafficCounters before = endpoint.traffic();
      all_reduce_sum(endpoint, all, values, algorithm, wire, tags::kCollective,
                     kPayload);
      int64_t wrong = 0;
      for (int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0; r < n; ++r) sum += integer_of(r, i);
        wrong += values[i] != sum;
      }
      EXPECT_EQ(wrong, 0) << "of " << count;
      EXPECT_EQ(endpoint.traffic().bytes_sent[0] - before.bytes_sent[0],
                all_reduce_bytes(n, rank, count, wire))
          << "of " << count;
      EXPECT_EQ(endpoint.traffic().is_modelled,
                algorithm == CollectiveAlgorithm::kNative);
    }
  });
}

// Wire bf16 with values that it must round: all members end with the same
// bits, near the sum.
inline void check_bf16_agrees(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    constexpr int64_t kCount = 1001;
    std::vector<float> values(kCount);
    for (int64_t i = 0; i < kCount; ++i) values[i] = value_of(rank, i);
    all_reduce_sum(endpoint, all, values, CollectiveAlgorithm::kRing,
                   Wire::kBf16, tags::kCollective, kPayload);
    for (int64_t i = 0; i < kCount; ++i) {
      double sum = 0, size = 0;
      for (int r = 0; r < n; ++r) {
        sum += value_of(r, i);
        size += std::abs(value_of(r, i));
      }
      // Each of n roundings to 8 bits of a partial sum of at most `size`.
      EXPECT_LE(std::abs(values[i] - sum), n * size / 256) << i;
    }
    const auto parts = gather_bytes(endpoint, all, view(values), 0,
                                    tags::kCollective, kPayload);
    for (size_t p = 0; p < parts.size(); ++p) {
      EXPECT_TRUE(parts[p] == parts[0]) << "member " << p;
    }
  });
}

// Two disjoint groups at once, in an order that is not that of the ranks.
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
      std::vector<float> values(1009);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = integer_of(rank, i + repeat);
      }
      all_reduce_sum(endpoint, half, values, algorithm, Wire::kF32,
                     tags::kCollective, kPayload);
      int wrong = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        float sum = 0;
        for (const int r : members) sum += integer_of(r, i + repeat);
        wrong += values[i] != sum;
      }
      EXPECT_EQ(wrong, 0);
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

      std::vector<int> own(rank, 7 * rank);  // worker 0 brings nothing
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

// Nobody leaves a barrier before the last one has come.
inline void check_barrier(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size();
    const Group all = endpoint.world_group();
    for (int last = 0; last < n; ++last) {
      const double slept = endpoint.rank() == last ? 0.02 : 0;
      const Time start = endpoint.now();
      if (slept > 0) {
        endpoint.advance(slept);
        // A virtual clock may stop a rounding short of it.
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

// The ring's result for values whose sums do round: bytes to compare between
// worlds.
inline std::vector<float> ring_sum(World& world, int64_t count, Wire wire) {
  std::vector<float> of_rank_0;
  world.run([&](Endpoint& endpoint) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = value_of(endpoint.rank(), i);
    all_reduce_sum(endpoint, endpoint.world_group(), values,
                   CollectiveAlgorithm::kRing, wire, tags::kCollective,
                   kPayload);
    if (endpoint.rank() == 0) of_rank_0 = values;
  });
  return of_rank_0;
}

}  // namespace syncopate::contract
