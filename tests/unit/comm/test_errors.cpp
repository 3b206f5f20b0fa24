// What happens when a worker fails, or nobody can go on.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "unit/comm/endpoint_contract.h"

namespace syncopate {
namespace {

constexpr Traffic kPayload = Traffic::kPayload;

// The error of a run, "" if there was none.
std::string error_of(int workers,
                     const std::function<void(Endpoint&)>& body,
                     ExitCode expected) {
  try {
    make_inproc_world(workers, {})->run(body);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  return "";
}

TEST(Errors, OfOneWorkerFreesTheOthers) {
  int freed = 0;
  const std::string text = error_of(
      4,
      [&](Endpoint& endpoint) {
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
      },
      ExitCode::kBadInput);
  EXPECT_EQ(text, "of worker 1");
  EXPECT_EQ(freed, 1);  // worker 0 waited; 2 and 3 had not begun
}

TEST(Errors, TheCauseIsToldNotItsConsequences) {
  const std::string text = error_of(
      3,
      [](Endpoint& endpoint) {
        if (endpoint.rank() == 2) fail(ExitCode::kDiverged, "the cause");
        endpoint.advance(1);
      },
      ExitCode::kDiverged);
  EXPECT_EQ(text, "the cause");
}

TEST(Errors, TasksOfAFailedWorkerEnd) {
  bool was_unwound = false;
  struct Unwound {
    bool& flag;
    ~Unwound() { flag = true; }
  };
  error_of(
      2,
      [&](Endpoint& endpoint) {
        endpoint.start("waiting", [&](Endpoint& own) {
          const Unwound unwound{was_unwound};
          own.recv_any({1, 2});
        });
        endpoint.advance(1);
        fail(ExitCode::kDiverged, "after a second");
      },
      ExitCode::kDiverged);
  EXPECT_TRUE(was_unwound);
}

TEST(Errors, ADeadlockNamesWhoWaitsForWhat) {
  const std::string text = error_of(
      3,
      [](Endpoint& endpoint) {
        if (endpoint.rank() == 2) return;
        int value = 0;
        const Task task = endpoint.start("bucket", [](Endpoint& own) {
          if (own.rank() == 1) own.recv_any({8, 9});
        });
        endpoint.wait(endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5));
        endpoint.join(task);
      },
      ExitCode::kInternal);
  for (const char* part : {"worker 0 at 0 s waits for a message from 1 with",
                           "worker 1 at 0 s waits for a message from 0 with",
                           "worker 1/bucket at 0 s waits for any message"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Errors, PollingForWhatNeverComesIsADeadlock) {
  const std::string text = error_of(
      2,
      [](Endpoint& endpoint) {
        int value = 0;
        const Request never =
            endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5);
        while (!endpoint.test(never)) endpoint.yield();
      },
      ExitCode::kInternal);
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
}

TEST(Errors, WaitingInsideACatchIsRefused) {
  const std::string text = error_of(
      2,
      [](Endpoint& endpoint) {
        try {
          fail(ExitCode::kDiverged, "first");
        } catch (const Error&) {
          int value = 0;
          endpoint.wait(endpoint.irecv({&value, 4}, 1 - endpoint.rank(), 5));
        }
      },
      ExitCode::kInternal);
  EXPECT_NE(text.find("catch"), std::string::npos) << text;
}

TEST(Errors, TheEndpointOfAnotherIsRefused) {
  const std::string text = error_of(
      1,
      [](Endpoint& endpoint) {
        endpoint.join(endpoint.start("mixed up",
                                     [&](Endpoint&) { endpoint.advance(1); }));
      },
      ExitCode::kInternal);
  EXPECT_NE(text.find("worker 0/mixed up"), std::string::npos) << text;
}

TEST(Errors, BadArgumentsAreRefused) {
  const auto refused = [](const std::function<void(Endpoint&)>& body) {
    return error_of(2, body, ExitCode::kInternal) != "";
  };
  EXPECT_TRUE(refused([](Endpoint& e) { e.isend({}, 2, 1, kPayload); }));
  EXPECT_TRUE(refused([](Endpoint& e) { e.irecv({}, -1, 1); }));
  EXPECT_TRUE(refused([](Endpoint& e) { e.isend({}, 0, -1, kPayload); }));
  EXPECT_TRUE(refused([](Endpoint& e) { e.irecv({}, 0, tags::kMaxTag + 1); }));
  EXPECT_TRUE(refused([](Endpoint& e) { e.advance(-1); }));
  EXPECT_TRUE(refused([](Endpoint& e) { e.group(std::vector<int>{5}); }));
  EXPECT_TRUE(
      refused([](Endpoint& e) { e.group(std::vector<int>{1 - e.rank()}); }));
}

TEST(Errors, NativeHasNoBf16) {
  const std::string text = error_of(
      1,
      [](Endpoint& endpoint) {
        std::vector<float> values(3);
        all_reduce_sum(endpoint, endpoint.world_group(), values,
                       CollectiveAlgorithm::kNative, Wire::kBf16,
                       tags::kCollective, kPayload);
      },
      ExitCode::kBadInput);
  EXPECT_NE(text, "");
}

TEST(Errors, AWorldRunsAgainAfterOne) {
  const auto world = make_inproc_world(3, {});
  EXPECT_THROW(world->run([](Endpoint&) { fail(ExitCode::kDiverged, "once"); }),
               Error);
  contract::check_order(*world);
}

}  // namespace
}  // namespace syncopate
