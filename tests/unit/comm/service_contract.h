// The contract of services in every world: tasks that answer other workers
// while their own worker computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "unit/comm/endpoint_contract.h"

namespace syncopate::contract {

inline int int_of(const Message& message) {
  int value = -1;
  EXPECT_EQ(message.payload.size(), sizeof value);
  std::memcpy(&value, message.payload.data(), sizeof value);
  return value;
}

// All workers compute, calling nothing that waits, until their service has
// answered everyone and their own questions were answered.
inline void check_service_beside_computing(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    std::atomic<int> answered = 0;
    const Task service = endpoint.start("service", [&](Endpoint& own) {
      for (int i = 0; i < n; ++i) {
        const Message question = own.recv_any({20, 29});
        const int answer = int_of(question) + 1000 * own.rank();
        own.wait(own.isend({&answer, 4}, question.from, 30, kPayload));
        ++answered;
      }
    });
    std::vector<int> answers(n, -1);
    const Task asker = endpoint.start("asker", [&](Endpoint& own) {
      for (int to = 0; to < n; ++to) {
        const Request send = own.isend({&rank, 4}, to, 20 + to % 10, kPayload);
        own.wait(own.irecv({&answers[to], 4}, to, 30));
        own.wait(send);
      }
    });
    // 30 s, far more than needed, so that a failure does not hang the test.
    const Time start = endpoint.now();
    while ((answered < n || !endpoint.done(asker)) &&
           endpoint.now() - start < 30) {
      endpoint.advance(1e-3);
    }
    EXPECT_EQ(answered, n);
    EXPECT_TRUE(endpoint.done(asker));
    endpoint.join(asker);
    endpoint.join(service);
    for (int to = 0; to < n; ++to) EXPECT_EQ(answers[to], rank + 1000 * to);
  });
}

// A service that runs until its own worker tells it to end, once all workers
// have their answers.
inline void check_service_ends_when_told(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    int served = 0;
    const Task service = endpoint.start("service", [&](Endpoint& own) {
      for (;;) {
        const Message message = own.recv_any({40, 41});
        if (message.tag == 41) {
          EXPECT_EQ(message.from, own.rank());
          EXPECT_TRUE(message.payload.empty());
          return;
        }
        const int answer = int_of(message) * 2;
        own.wait(own.isend({&answer, 4}, message.from, 42, kPayload));
        ++served;
      }
    });
    constexpr int kQuestions = 7;
    for (int i = 0; i < kQuestions; ++i) {
      for (int to = 0; to < n; ++to) {
        const int question = 100 * rank + i;
        int answer = -1;
        const Request send = endpoint.isend({&question, 4}, to, 40, kPayload);
        endpoint.wait(endpoint.irecv({&answer, 4}, to, 42));
        endpoint.wait(send);
        EXPECT_EQ(answer, 2 * question);
      }
    }
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    endpoint.wait(endpoint.isend({}, rank, 41, Traffic::kControl));
    endpoint.join(service);
    EXPECT_EQ(served, kQuestions * n);
    // Only questions from and answers to other workers count.
    EXPECT_EQ(endpoint.traffic().messages_sent[0], 2 * kQuestions * (n - 1));
    EXPECT_EQ(endpoint.traffic().bytes_sent[0], 8 * kQuestions * (n - 1));
  });
}

// All workers send 5 MB (a slice of a model) at the same time and get the sum
// back, while all-reduces run between the workers.
inline void check_large_requests(World& world) {
  constexpr int64_t kElems = 1'250'000;
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const Group all = endpoint.world_group();
    const Task service =
        rank > 0 ? nullptr : endpoint.start("server", [&](Endpoint& own) {
          std::vector<float> sum(kElems, 0);
          std::vector<bool> has_come(n, false);
          for (int k = 0; k < n; ++k) {
            const Message message = own.recv_any({50, 50});
            EXPECT_EQ(message.payload.size(), sizeof(float) * kElems);
            EXPECT_FALSE(has_come[message.from]);
            has_come[message.from] = true;
            std::vector<float> slice(kElems);
            std::memcpy(slice.data(), message.payload.data(),
                        std::min(message.payload.size(), 4 * slice.size()));
            for (int64_t i = 0; i < kElems; ++i) sum[i] += slice[i];
          }
          std::vector<Request> sends;
          for (int to = 0; to < n; ++to) {
            sends.push_back(own.isend(view(sum), to, 51, kPayload));
          }
          for (const Request& send : sends) own.wait(send);
        });
    const std::vector<float> slice = integers(rank, kElems);
    std::vector<float> sum(kElems);
    const Request receive = endpoint.irecv(span_of(sum), 0, 51);
    const Request send = endpoint.isend(view(slice), 0, 50, kPayload);
    std::vector<float> other(200'003, 1);
    all_reduce_sum(endpoint, all, other, CollectiveAlgorithm::kButterfly,
                   Wire::kF32, tags::kCollective, kPayload);
    EXPECT_EQ(other.back(), static_cast<float>(n));
    endpoint.wait(send);
    endpoint.wait(receive);
    expect_sums(sum, all.members, integer_of);
    if (service != nullptr) endpoint.join(service);
  });
}

// Several services per worker, each with its own range of tags, query those of
// the next worker; no service gets another's messages.
inline void check_many_services(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    constexpr int kServices = 6, kMessages = 5;
    std::vector<Task> services;
    std::vector<int> sums(kServices, 0);
    for (int s = 0; s < kServices; ++s) {
      services.push_back(endpoint.start("service", [&, s](Endpoint& own) {
        const Tag first = 100 + 10 * s;
        std::vector<int> next(n, 0);
        for (int k = 0; k < kMessages * n; ++k) {
          const Message message = own.recv_any({first, first + 9});
          const int value = int_of(message);
          EXPECT_EQ(message.tag, first + value % 10);
          EXPECT_EQ(value, 1000 * s + 10 * message.from + next[message.from]);
          ++next[message.from];
          sums[s] += value;
        }
      }));
    }
    std::vector<int> values;
    std::vector<Request> sends;
    values.reserve(static_cast<size_t>(kServices * kMessages));
    int expected = 0;
    for (int k = 0; k < kMessages; ++k) {
      for (int s = kServices - 1; s >= 0; --s) {
        values.push_back(1000 * s + 10 * rank + k);
        for (int to = 0; to < n; ++to) {
          sends.push_back(endpoint.isend({&values.back(), 4}, to,
                                         100 + 10 * s + values.back() % 10,
                                         kPayload));
        }
      }
    }
    for (const Request& send : sends) endpoint.wait(send);
    for (const Task& service : services) endpoint.join(service);
    for (int from = 0; from < n; ++from) {
      for (int k = 0; k < kMessages; ++k) expected += 10 * from + k;
    }
    for (int s = 0; s < kServices; ++s) {
      EXPECT_EQ(sums[s], expected + 1000 * s * kMessages * n);
    }
  });
}

}  // namespace syncopate::contract
