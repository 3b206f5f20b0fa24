// What a traced endpoint records of messages, tasks and services in virtual
// time, and that it changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "comm/traced_endpoint.h"
#include "comm/world.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

using Json = nlohmann::json;
const NetworkCost kCost = {0.5, 128};  // s, bytes per second

class TraceOf : public ::testing::Test {
 protected:
  // Runs `body` in as many traced workers, which are at step `step`.
  void record(int workers,
              TraceSteps steps,
              const std::function<void(Endpoint&)>& body) {
    Trace trace({.path = scratch_ / "trace.json",
                 .steps = steps,
                 .facts = {},
                 .process_name = [](int rank) {
                   return fmt::format("worker {}", rank);
                 }});
    make_inproc_world(workers, kCost)->run([&](Endpoint& plain) {
      TracedEndpoint endpoint(plain, trace.worker(plain.rank()));
      endpoint.trace()->start_at(0, 0);
      endpoint.trace()->at_step(1);
      body(endpoint);
    });
    trace.flush();
    num_recorded_ = trace.num_recorded();
    const Json whole = Json::parse(read_file(scratch_ / "trace.json"));
    for (const Json& event : whole["traceEvents"])
      (event["ph"] == "X"   ? slices_
       : event["ph"] == "s" ? begun_
       : event["ph"] == "f" ? ended_
                            : others_)
          .push_back(event);
  }
  // "0/bucket 3: 2.5+1.5" for each slice: worker, name, begin, duration.
  std::vector<std::string> slices() const {
    std::vector<std::string> texts;
    for (const Json& slice : slices_)
      texts.push_back(fmt::format("{}/{}: {}+{}", slice["pid"].get<int>(),
                                  slice["name"].get<std::string>(),
                                  slice["ts"].get<double>() / 1e6,
                                  slice["dur"].get<double>() / 1e6));
    std::ranges::sort(texts);
    return texts;
  }

  ScratchFolder scratch_;
  std::vector<Json> slices_, begun_, ended_, others_;
  int64_t num_recorded_ = 0;
};

void send_one(Endpoint& endpoint, Tag tag) {
  std::array<char, 128> data{};
  const Task task = endpoint.start("exchange", [&](Endpoint& own) {
    if (own.rank() == 0)
      own.wait(own.isend({data.data(), 128}, 1, tag, Traffic::kPayload));
    else
      own.wait(own.irecv({data.data(), 128}, 0, tag));
  });
  endpoint.join(task);
}

TEST_F(TraceOf, AMessageIsASliceAtBothEndsAndAnArrow) {
  record(2, {}, [](Endpoint& endpoint) {
    endpoint.advance(1);
    send_one(endpoint, tags::kGossip);
  });
  EXPECT_EQ(slices(),
            (std::vector<std::string>{"0/exchange: 1+1", "1/exchange: 1+1.5"}));
  ASSERT_EQ(begun_.size(), 1U);
  ASSERT_EQ(ended_.size(), 1U);
  EXPECT_EQ(begun_[0]["id"], ended_[0]["id"]);
  EXPECT_EQ(begun_[0]["pid"], 0);
  EXPECT_EQ(begun_[0]["ts"], 1e6);
  EXPECT_EQ(ended_[0]["pid"], 1);
  EXPECT_EQ(ended_[0]["ts"], 2.5e6);
  EXPECT_EQ(slices_[0]["args"]["bytes_sent"], 128);
  EXPECT_EQ(slices_[1]["args"]["bytes_received"], 128);
  EXPECT_EQ(num_recorded_, 4);
}

TEST_F(TraceOf, MessagesWithOneTagAreMatchedInOrder) {
  record(2, {}, [](Endpoint& endpoint) {
    for (int i = 0; i < 20; ++i) send_one(endpoint, tags::kBucket + i % 2);
  });
  std::map<std::string, double> begun;
  for (const Json& event : begun_)
    EXPECT_TRUE(begun.emplace(event["id"], event["ts"]).second);
  ASSERT_EQ(ended_.size(), 20U);
  for (const Json& event : ended_)
    EXPECT_EQ(event["ts"].get<double>() - begun.at(event["id"]), 1.5e6);
}

TEST_F(TraceOf, TasksAtTheSameTimeHaveRowsOfTheirOwn) {
  record(3, {}, [](Endpoint& endpoint) {
    const Group world = endpoint.world_group();
    std::vector<float> values(24, 1);
    std::vector<Task> tasks;
    for (int bucket = 0; bucket < 2; ++bucket)
      tasks.push_back(endpoint.start("bucket", [&, bucket](Endpoint& own) {
        all_reduce_sum(own, world, std::span(values).subspan(12 * bucket, 12),
                       CollectiveAlgorithm::kRing, Wire::kF32,
                       tags::kBucket + bucket, Traffic::kPayload);
      }));
    for (const Task& task : tasks) endpoint.join(task);
    EXPECT_EQ(values[0], 3);
  });
  EXPECT_EQ(slices_.size(), 6U);
  EXPECT_EQ(begun_.size(), 3U * 2 * 4);
  EXPECT_EQ(ended_.size(), begun_.size());
  for (const Json& slice : slices_)
    EXPECT_EQ(slice["tid"].get<int>() - 100 * slice["pid"].get<int>(),
              slice["name"] == "bucket 0" ? 3 : 4);
}

TEST_F(TraceOf, AServiceHasASliceForEachMessage) {
  record(2, {}, [](Endpoint& endpoint) {
    std::array<char, 128> data{};
    if (endpoint.rank() == 1) {
      const Task task = endpoint.start("push", [&](Endpoint& own) {
        own.wait(own.isend({data.data(), 128}, 0, tags::kServer + 1,
                           Traffic::kPayload));
      });
      endpoint.join(task);
      return;
    }
    const Task service = endpoint.serve("shard", [](Endpoint& own) {
      EXPECT_EQ(own.recv_any({tags::kServer, tags::kServer + 2}).from, 1);
    });
    endpoint.join(service);
  });
  EXPECT_EQ(slices(), (std::vector<std::string>{"0/server of worker 1: 1.5+0",
                                                "1/push: 0+1"}));
  EXPECT_EQ(ended_.size(), 1U);
}

TEST_F(TraceOf, ControlMessagesLeaveNothing) {
  record(2, {}, [](Endpoint& endpoint) {
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    send_one(endpoint, tags::kTicketRequest);
  });
  EXPECT_EQ(num_recorded_, 0);
}

TEST_F(TraceOf, OnlyStepsOfTheWindowAreRecorded) {
  record(2, {2, 3}, [](Endpoint& endpoint) {
    for (int step = 1; step <= 6; ++step) {
      endpoint.trace()->at_step(step);
      const Time begin = endpoint.now();
      endpoint.advance(1);
      endpoint.trace()->compute("forward", begin, endpoint.now());
      send_one(endpoint, tags::kGossip);
    }
    EXPECT_TRUE(endpoint.trace()->is_over());
  });
  EXPECT_EQ(slices_.size(), 8U);
  for (const Json& slice : slices_) {
    EXPECT_GE(slice["args"]["step"], 2);
    EXPECT_LE(slice["args"]["step"], 3);
  }
  EXPECT_EQ(begun_.size(), 2U);
}

// A message is sent within the window of one worker, and received outside that
// of the other.
TEST_F(TraceOf, ArrowsHaveBothEndsOrNone) {
  record(2, {1, 1}, [](Endpoint& endpoint) {
    if (endpoint.rank() == 1) endpoint.trace()->at_step(2);
    send_one(endpoint, tags::kGossip);
  });
  EXPECT_EQ(slices_.size(), 1U);
  EXPECT_TRUE(begun_.empty());
  EXPECT_TRUE(ended_.empty());
}

TEST_F(TraceOf, WaitsAreCountedOnce) {
  record(1, {}, [](Endpoint& endpoint) {
    WorkerTrace& trace = *endpoint.trace();
    trace.wait("sums", 2, 3);
    trace.wait("change", 1, 5);
    trace.wait("sums", 5, 5);
    EXPECT_EQ(trace.between_waits(0, 6),
              (std::vector<std::pair<Time, Time>>{{0, 1}, {5, 6}}));
  });
  EXPECT_EQ(slices(), (std::vector<std::string>{
                          "0/change: 1+1", "0/change: 3+2", "0/sums: 2+1"}));
}

TEST_F(TraceOf, ARunTakesTheSameVirtualTime) {
  const auto body = [](Endpoint& endpoint, Time& ended_at) {
    const Group world = endpoint.world_group();
    std::vector<float> values(1000, 1);
    for (int step = 0; step < 3; ++step) {
      endpoint.advance(0.1 * (endpoint.rank() + 1));
      all_reduce_sum(endpoint, world, values, CollectiveAlgorithm::kRing,
                     Wire::kF32, tags::kBucket, Traffic::kPayload);
      endpoint.native_all_reduce(values, world, Traffic::kPayload);
    }
    ended_at = endpoint.now();
  };
  std::array<Time, 3> plain{}, traced{};
  make_inproc_world(3, kCost)->run(
      [&](Endpoint& endpoint) { body(endpoint, plain[endpoint.rank()]); });
  record(3, {1, 100},
         [&](Endpoint& endpoint) { body(endpoint, traced[endpoint.rank()]); });
  EXPECT_EQ(plain, traced);
  EXPECT_EQ(slices_.size(), 18U);
}

}  // namespace
}  // namespace syncopate
