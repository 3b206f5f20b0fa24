// The outcome of a run if a worker fails or all workers are blocked.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>

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
  for (const char* part : {"worker 0 at 0 s waits for a message from 1 with",
                           "worker 1 at 0 s waits for a message from 0 with",
                           "worker 1/bucket at 0 s waits for any message"})
    expect_error_has(ExitCode::kInternal, part, run);
}

TEST(Errors, PollingForWhatNeverComesIsADeadlock) {
  const auto run = run_of(2, [](Endpoint& endpoint) {
    int value = 0;
    const Request never = endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5);
    while (!endpoint.test(never)) endpoint.yield();
  });
  expect_error_has(ExitCode::kInternal, "deadlock", run);
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
