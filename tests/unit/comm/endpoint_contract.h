// The contract of endpoints in every world, as functions that a test calls with
// a world: unit tests with workers in one process, tests/mpi with ranks.
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
#include "support/expect_error.h"

namespace syncopate::contract {

inline constexpr Traffic kPayload = Traffic::kPayload;

// Values from a formula, so that any rank can compute those of another.
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

inline std::vector<float> integers(int rank, int64_t count, int64_t first = 0) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = integer_of(rank, first + i);
  return values;
}
// Checks that all values equal the sum over ranks of value(rank, i), formed in
// rank order.
template <typename Members, typename Value>
void expect_sums(std::span<const float> values,
                 const Members& ranks,
                 const Value& value,
                 const std::string& what = "") {
  int64_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    float sum = 0;
    for (const int rank : ranks) sum += value(rank, static_cast<int64_t>(i));
    wrong += values[i] != sum;
  }
  EXPECT_EQ(wrong, 0) << what << ", of " << values.size();
}

template <typename T>
ConstBytes view(const std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size() * sizeof(T))};
}
template <typename T>
Bytes span_of(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size() * sizeof(T))};
}

// Between two workers, messages with the same tag arrive in the order sent and
// different tags are independent. Receives may be posted before or after sends.
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
    EXPECT_EQ(endpoint.traffic().messages_sent[3], n > 1 ? 1 : 0);
    EXPECT_EQ(endpoint.traffic().bytes_sent[3], 0);
  });
}

// Messages to the sender itself arrive and do not count as traffic.
inline void check_own_messages(World& world) {
  world.run([](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    for (const int64_t bytes : {0, 8, 100'000}) {
      std::vector<char> out(bytes, static_cast<char>('a' + rank)), in(bytes);
      const Request receive = endpoint.irecv(span_of(in), rank, 4);
      const Request send = endpoint.isend(view(out), rank, 4, kPayload);
      endpoint.wait(receive);
      endpoint.wait(send);
      EXPECT_EQ(in, out);
    }
    EXPECT_EQ(endpoint.traffic().bytes_sent[0], 0);
    EXPECT_EQ(endpoint.traffic().messages_sent[0], 0);
    const int to = (rank + 1) % endpoint.size();
    const int from = (rank + endpoint.size() - 1) % endpoint.size();
    int value = rank, got = -1;
    const Request send = endpoint.isend({&value, 4}, to, 4, kPayload);
    endpoint.wait(endpoint.irecv({&got, 4}, from, 4));
    endpoint.wait(send);
    EXPECT_EQ(got, from);
    EXPECT_EQ(endpoint.traffic().bytes_sent[0], to == rank ? 0 : 4);
  });
}

// Sends `bytes` between neighbours, received from a known rank and by recv_any.
inline void check_large(World& world, int64_t bytes) {
  world.run([bytes](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    const auto byte_of = [](int r, size_t i) {
      return static_cast<std::byte>((i * 31 + i / 4099 + r) & 0xff);
    };
    std::vector<std::byte> out(bytes), in(bytes);
    for (size_t i = 0; i < out.size(); ++i) out[i] = byte_of(rank, i);
    const auto is_right = [&](const auto& got) {
      if (got.size() != out.size()) return false;
      for (size_t i = 0; i < got.size(); ++i) {
        if (got.data()[i] != byte_of(from, i)) return false;
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

// Rank 0 serves all others. Messages outside the range of tags remain for later
// receives, and each sender's messages arrive in order.
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

// A service on every worker answers while its host does something else.
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

// Two all-reduces in tasks, joined in reverse order, while the worker performs
// one itself.
inline void check_tasks_overlap(World& world) {
  world.run([](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const Group all = endpoint.world_group();
    std::vector<std::vector<float>> values;
    for (int b = 0; b < 3; ++b) values.push_back(integers(rank + b, 10007));
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
    for (int b = 0; b < 3; ++b)
      expect_sums(values[b], all.members,
                  [b](int r, int64_t i) { return integer_of(r + b, i); });
  });
}

// The exception of a task is rethrown where it is joined, and the world
// continues. If the task is never joined, the end of the run rethrows it.
inline void check_task_error(World& world) {
  const auto failing = [](Endpoint&) {
    fail(ExitCode::kDiverged, "as it should");
  };
  world.run([&](Endpoint& endpoint) {
    const Task task = endpoint.start("failing", failing);
    EXPECT_EQ(error_of([&] { endpoint.join(task); }).code(),
              ExitCode::kDiverged);
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  });
  expect_error(ExitCode::kDiverged, "as it should", [&] {
    world.run([&](Endpoint& endpoint) { endpoint.start("failing", failing); });
  });
}

inline void check_size_mismatch(World& world) {
  for (const int64_t sent : {8, 24}) {
    world.run([sent](Endpoint& endpoint) {
      const int n = endpoint.size(), rank = endpoint.rank();
      char out[24] = {}, in[24] = {};
      const Request receive = endpoint.irecv({in, 16}, (rank + n - 1) % n, 30);
      const Request send =
          endpoint.isend({out, sent}, (rank + 1) % n, 30, kPayload);
      EXPECT_EQ(error_of([&] { endpoint.wait(receive); }).code(),
                ExitCode::kInternal)
          << sent << " bytes sent";
      endpoint.wait(send);
      barrier(endpoint, endpoint.world_group(), tags::kControl);
    });
  }
}

}  // namespace syncopate::contract
