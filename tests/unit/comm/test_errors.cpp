// The outcome of a run if a worker fails or all workers are blocked.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/modelled_sums.h"
#include "comm/tags.h"
#include "support/expect_error.h"
#include "unit/comm/endpoint_contract.h"

namespace syncopate {
namespace {

constexpr Traffic kPayload = Traffic::kPayload;

// For expect_error.
std::function<void()> run_of(int workers,
                             const std::function<void(Endpoint&)>& body) {
  return [=] { make_inproc_world(workers, {})->run(body); };
}

TEST(Errors, OfOneWorkerFreesTheOthers) {
  int freed = 0;
  const auto run = run_of(4, [&](Endpoint& endpoint) {
    if (endpoint.rank() == 1) fail(ExitCode::kBadInput, "of worker 1");
    int value = 0;
    try {
      endpoint.wait(endpoint.irecv({&value, 4}, 1, 1));
    } catch (const Error& error) {
      freed += error.code() == ExitCode::kPeerLost;
      EXPECT_NE(std::string(error.what()).find("of worker 1"),
                std::string::npos);
      throw;
    }
  });
  expect_error(ExitCode::kBadInput, "of worker 1", run);
  EXPECT_EQ(freed, 1);  // worker 0 waited; 2 and 3 had not begun
}

TEST(Errors, TheCauseIsToldNotItsConsequences) {
  const auto run = run_of(3, [](Endpoint& endpoint) {
    if (endpoint.rank() == 2) fail(ExitCode::kDiverged, "the cause");
    endpoint.advance(1);
  });
  expect_error(ExitCode::kDiverged, "the cause", run);
}

TEST(Errors, TasksOfAFailedWorkerEnd) {
  bool was_unwound = false;
  struct Unwound {
    bool& flag;
    ~Unwound() { flag = true; }
  };
  const auto run = run_of(2, [&](Endpoint& endpoint) {
    endpoint.start("waiting", [&](Endpoint& own) {
      const Unwound unwound{was_unwound};
      own.recv_any({1, 2});
    });
    endpoint.advance(1);
    fail(ExitCode::kDiverged, "after a second");
  });
  expect_error(ExitCode::kDiverged, "after a second", run);
  EXPECT_TRUE(was_unwound);
}

TEST(Errors, ADeadlockNamesWhoWaitsForWhat) {
  const auto run = run_of(3, [](Endpoint& endpoint) {
    if (endpoint.rank() == 2) return;
    int value = 0;
    const Task task = endpoint.start("bucket", [](Endpoint& own) {
      if (own.rank() == 1) own.recv_any({8, 9});
    });
    endpoint.wait(endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5));
    endpoint.join(task);
  });
  expect_error(
      ExitCode::kInternal,
      "deadlock: no worker can continue: worker 0 at 0 s waits for a receive "
      "of 4 "
      "bytes from worker 1, control (tag 5); worker 1 at 0 s waits for a "
      "receive of 4 bytes from worker 0, control (tag 5); worker 1/bucket at 0 "
      "s waits for a receive from any worker, arrival (tags 8 to 9)",
      run);
}

TEST(Errors, ADeadlockOfAPairNamesOperationPeerAndTag) {
  const auto run = run_of(2, [](Endpoint& endpoint) {
    endpoint.advance(0.25 * (1 + endpoint.rank()));
    std::vector<float> values(16);
    // Each waits for the other before it sends, one of them in a task.
    const int other = 1 - endpoint.rank();
    const auto receive = [&](Endpoint& own) {
      own.wait(
          own.irecv(bytes_span(std::span(values)), other, tags::kBucket + 3));
    };
    if (endpoint.rank() == 0)
      receive(endpoint);
    else
      endpoint.join(endpoint.start("sum 3", receive));
    endpoint.wait(endpoint.isend(bytes_view(std::span<const float>(values)),
                                 other, tags::kBucket + 3, kPayload));
  });
  expect_error(
      ExitCode::kInternal,
      "deadlock: no worker can continue: worker 1 at 0.5 s waits for the end "
      "of "
      "worker 1/sum 3; worker 1/sum 3 at 0.5 s waits for a receive of 64 bytes "
      "from worker 0, bucket 3 (tag 1027); worker 0 at 0.25 s waits for a "
      "receive of 64 bytes from worker 1, bucket 3 (tag 1027)",
      run);
}

// Twelve of many waiters are named, first the one that the others wait for.
TEST(Errors, ADeadlockOfManyNamesTheHub) {
  constexpr int kHub = 20;
  const auto run = run_of(40, [](Endpoint& endpoint) {
    int value = 0;
    const int from = endpoint.rank() == kHub ? 7 : kHub;
    endpoint.wait(endpoint.irecv({&value, 4}, from, tags::kServerAnswer));
  });
  const Error error = error_of(run);
  EXPECT_EQ(error.code(), ExitCode::kInternal);
  std::string expected =
      "deadlock: no worker can continue: worker 20 at 0 s waits for a receive "
      "of "
      "4 "
      "bytes from worker 7, server answer (tag 144); worker 7";
  for (const int leaf : {0, 1, 2, 3, 4, 5, 6, 8, 9, 10})
    expected += fmt::format(
        " at 0 s waits for a receive of 4 bytes from worker 20, server answer "
        "(tag 144); worker {}",
        leaf);
  expected +=
      " at 0 s waits for a receive of 4 bytes from worker 20, server answer "
      "(tag 144); and 28 more";
  EXPECT_EQ(std::string(error.what()), expected);
}

TEST(Errors, ADeadlockOfTwelveNamesAll) {
  const auto run = run_of(12, [](Endpoint& endpoint) {
    int value = 0;
    endpoint.wait(endpoint.irecv({&value, 4}, (endpoint.rank() + 1) % 12, 0));
  });
  const std::string text = error_of(run).what();
  EXPECT_EQ(text.find("more"), std::string::npos) << text;
  EXPECT_NE(text.find("worker 11 at 0 s"), std::string::npos) << text;
}

TEST(Errors, ADeadlockNamesWhoIsMissingInASum) {
  const auto native = run_of(3, [](Endpoint& endpoint) {
    std::vector<float> values(4);
    int value = 0;
    if (endpoint.rank() == 1)
      endpoint.wait(endpoint.irecv({&value, 4}, 2, 5));
    else
      endpoint.native_all_reduce(values, endpoint.world_group(), kPayload);
  });
  expect_error_has(ExitCode::kInternal,
                   "worker 0 at 0 s waits for worker 1 in a native all-reduce "
                   "of 3 workers",
                   native);
  const auto modelled = run_of(3, [](Endpoint& endpoint) {
    int value = 0;
    ModelledSums& sums = *endpoint.modelled_sums();
    // Worker 1 takes part in the first sum only.
    for (int i = 0; i < 2; ++i) {
      if (endpoint.rank() == 1 && i == 1)
        endpoint.wait(endpoint.irecv({&value, 4}, 2, 5));
      sums.enter(endpoint.world_group(), endpoint.now(), 12,
                 CollectiveAlgorithm::kRing, Wire::kF32, kPayload);
      sums.finish();
    }
  });
  expect_error_has(ExitCode::kInternal,
                   "worker 2 at 0 s waits for worker 1 in an all-reduce of 3 "
                   "workers",
                   modelled);
}

TEST(Errors, PollingForWhatNeverComesIsADeadlock) {
  const auto run = run_of(2, [](Endpoint& endpoint) {
    int value = 0;
    const Request never = endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5);
    while (!endpoint.test(never)) endpoint.yield();
  });
  expect_error(
      ExitCode::kInternal,
      "deadlock: no worker can continue: worker 0 at 0 s waits for a message "
      "from "
      "worker 1, control (tag 5), for which it polls; worker 1 at 0 s waits "
      "for "
      "a message from worker 0, control (tag 5), for which it polls",
      run);
}

TEST(Errors, WaitingInsideACatchIsRefused) {
  const auto run = run_of(2, [](Endpoint& endpoint) {
    try {
      fail(ExitCode::kDiverged, "first");
    } catch (const Error&) {
      int value = 0;
      endpoint.wait(endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5));
    }
  });
  expect_error_has(ExitCode::kInternal, "catch", run);
}

TEST(Errors, TheEndpointOfAnotherIsRefused) {
  const auto run = run_of(1, [](Endpoint& endpoint) {
    endpoint.join(
        endpoint.start("mixed up", [&](Endpoint&) { endpoint.advance(1); }));
  });
  expect_error_has(ExitCode::kInternal, "worker 0/mixed up", run);
}

TEST(Errors, BadArgumentsAreRefused) {
  for (const auto& body : std::vector<void (*)(Endpoint&)>{
           [](Endpoint& e) { e.isend({}, 2, 1, kPayload); },
           [](Endpoint& e) { e.irecv({}, -1, 1); },
           [](Endpoint& e) { e.isend({}, 0, -1, kPayload); },
           [](Endpoint& e) { e.irecv({}, 0, tags::kMaxTag + 1); },
           [](Endpoint& e) { e.advance(-1); },
           [](Endpoint& e) { e.group(std::vector<int>{5}); },
           [](Endpoint& e) { e.group(std::vector<int>{1 - e.rank()}); }})
    EXPECT_EQ(error_of(run_of(2, body)).code(), ExitCode::kInternal);
}

TEST(Errors, NativeHasNoBf16) {
  const auto run = run_of(1, [](Endpoint& endpoint) {
    std::vector<float> values(3);
    all_reduce_sum(endpoint, endpoint.world_group(), values,
                   CollectiveAlgorithm::kNative, Wire::kBf16, tags::kCollective,
                   kPayload);
  });
  EXPECT_EQ(error_of(run).code(), ExitCode::kBadInput);
}

TEST(Errors, AWorldRunsAgainAfterOne) {
  const auto world = make_inproc_world(3, {});
  EXPECT_THROW(world->run([](Endpoint&) { fail(ExitCode::kDiverged, "once"); }),
               Error);
  contract::check_order(*world);
}

}  // namespace
}  // namespace syncopate
