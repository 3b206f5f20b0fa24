// Links shared by messages in virtual time. Every expected time is computed by
// hand from the rules in comm/inproc/network.h; most costs are powers of two,
// so that times are exact. B stands for the seconds that a message's bytes
// take.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "comm/inproc/network.h"
#include "unit/comm/endpoint_contract.h"

namespace syncopate {
namespace {

constexpr Traffic kPayload = Traffic::kPayload;

struct Sent {
  int from, to;
  int64_t bytes;
  Time at = 0;
};

// Arrival times of messages, each of which is received at once.
std::vector<Time> arrivals(int workers,
                           const NetworkCost& cost,
                           const std::vector<Sent>& messages) {
  std::vector<Time> times(messages.size(), -1);
  make_inproc_world(workers, cost)->run([&](Endpoint& endpoint) {
    std::vector<char> data(4096);
    std::vector<Task> tasks;
    for (size_t i = 0; i < messages.size(); ++i) {
      const Sent& message = messages[i];
      const auto tag = static_cast<Tag>(i);
      if (message.to == endpoint.rank())
        tasks.push_back(endpoint.start("receive", [&, i, tag](Endpoint& own) {
          own.wait(own.irecv({data.data(), message.bytes}, message.from, tag));
          times[i] = own.now();
        }));
      if (message.from == endpoint.rank())
        tasks.push_back(endpoint.start("send", [&, tag](Endpoint& own) {
          own.advance(message.at);
          own.wait(own.isend({data.data(), message.bytes}, message.to, tag,
                             kPayload));
        }));
    }
    for (const Task& task : tasks) endpoint.join(task);
  });
  return times;
}

using Times = std::vector<Time>;

TEST(Network, ManySendersShareTheLinkOfOneReceiver) {
  EXPECT_EQ(arrivals(4, {0.5, 128}, {{3, 0, 128}, {1, 0, 128}, {2, 0, 128}}),
            (Times{3.5, 1.5, 2.5}));
}

TEST(Network, BothDirectionsAreIndependent) {
  EXPECT_EQ(arrivals(2, {0.5, 128}, {{0, 1, 128}, {1, 0, 128}}),
            (Times{1.5, 1.5}));
}

// The first message is sent at 0 with a latency of 2 s, the second one at 1.5
// without latency: it uses the link from 1.5 to 2.5, the first one after that.
TEST(Network, ALinkIsTakenInTheOrderOfFirstBytes) {
  NetworkCost cost;
  cost.by_worker = {{0, 128}, {4, 128}, {0, 128}};
  EXPECT_EQ(arrivals(3, cost, {{1, 0, 128}, {2, 0, 128, 1.5}}),
            (Times{3.5, 2.5}));
}

Time arrival(inproc::Network& network, const Sent& message) {
  inproc::Transit transit =
      network.send(message.from, message.to, message.bytes, false, message.at);
  while (!transit.has_arrived()) network.pass(transit);
  return transit.at();
}

// Of two workers on one host with an uplink and copies to a device, and of
// their two servers, which have neither. To a server a message has the latency
// of the worker's link, 1, and takes 1 s of that, 2 s of the uplink, and 4 s of
// the server's link; copies take 8 s. The state of a sender's link is a
// worker's.
TEST(Network, AServerApartHasLinksOfItsOwn) {
  NetworkCost cost{1, 128};
  cost.island = 2;
  cost.uplink_bytes_per_s = 64;
  cost.has_servers_apart = true;
  cost.server_bytes_per_s = 32;
  {
    inproc::Network network(2, cost);
    const int first = network.server_rank(0), second = network.server_rank(1);
    EXPECT_EQ(arrival(network, {0, first, 128}), 0 + 1 + 4);
    EXPECT_EQ(arrival(network, {1, first, 128, 2}), 5 + 4);  // the same link
    EXPECT_EQ(arrival(network, {1, second, 128, 20}), 20 + 1 + 4);
    EXPECT_EQ(arrival(network, {first, 0, 128, 0}), 0 + 1 + 4);  // full duplex
    EXPECT_EQ(arrival(network, {second, 0, 128, 40}), 40 + 1 + 4);
    EXPECT_EQ(arrival(network, {second, 1, 128, 41}), 44 + 1 + 4);
  }
  cost.device_bytes_per_s = 16;
  cost.link = [](int rank, Time) {
    EXPECT_LT(rank, 2);
    return NetworkCost::Link{.added_s = 0.5, .slowdown = 1};
  };
  inproc::Network network(2, cost);
  const int server = network.server_rank(0);
  EXPECT_EQ(arrival(network, {0, server, 128}), 8 + 1.5);
  EXPECT_EQ(arrival(network, {server, 0, 128}), 8 + 1);
}

TEST(Network, ServersOnWorkersHaveTheirRanks) {
  EXPECT_EQ(inproc::Network(4, {1, 128}).server_rank(2), 2);
}

// While workers come to a boundary, the last one's message takes the link of
// worker 0 from 8 to 9, and another the next second. Clocks are then set back:
// what fits before 8 passes, and of the message that does not, 1.5 s do, the
// other half second after both. So too if the network is that of a resumed run.
TEST(Network, MessagesAfterABoundaryPassBeforeThoseOfLaterClocks) {
  const NetworkCost cost{.bytes_per_s = 128};
  inproc::Network before(4, cost);
  before.come_to_boundary();
  EXPECT_EQ(arrival(before, {1, 0, 128, 8}), 9);
  EXPECT_EQ(arrival(before, {2, 0, 128, 8}), 10);
  inproc::Network resumed(4, cost);
  resumed.set_clocks(0, before.clocks(0));
  before.leave_boundary(0);
  resumed.leave_boundary(0);
  for (inproc::Network* network : {&before, &resumed}) {
    EXPECT_EQ(arrival(*network, {3, 0, 128, 1}), 2);
    EXPECT_EQ(arrival(*network, {3, 0, 128, 2}), 3);
    EXPECT_EQ(arrival(*network, {3, 0, 256, 6.5}), 10.5);
    EXPECT_EQ(arrival(*network, {3, 0, 128, 9}), 11.5);
    EXPECT_TRUE(network->clocks(0).taken_later.empty());
  }
}

// A small message does not overtake the one before it, though it alone would
// fit before what a boundary has put off.
TEST(Network, MessagesOfABoundaryKeepTheirOrder) {
  inproc::Network network(3, {.bytes_per_s = 128});
  network.come_to_boundary();
  EXPECT_EQ(arrival(network, {1, 0, 128, 8}), 9);
  network.leave_boundary(0);
  network.come_to_boundary();
  EXPECT_EQ(arrival(network, {2, 0, 256, 7}), 10);
  EXPECT_EQ(arrival(network, {2, 0, 64, 7}), 10.5);
}

// Two boundaries leave a second between the messages of later clocks. A link
// that has something to send uses it: 2 + 1 + 1 s of a message of 4 s pass
// around them, from 2 to 8, and the next message at 8.
TEST(Network, ALinkWithWorkIsNotIdleBetweenMessagesOfLaterClocks) {
  inproc::Network network(4, {.bytes_per_s = 128});
  for (const Time later : {4, 6}) {
    network.come_to_boundary();
    EXPECT_EQ(arrival(network, {1, 0, 128, later}), later + 1);
    network.leave_boundary(0);
  }
  network.come_to_boundary();
  EXPECT_EQ(arrival(network, {2, 0, 512, 2}), 8);
  EXPECT_EQ(arrival(network, {3, 0, 128, 2}), 9);
  network.leave_boundary(0);
  EXPECT_EQ(network.clocks(0).taken_later.size(), 1u);  // from 2 to 9
}

TEST(Network, AnEmptyMessageOfABoundaryDelaysNone) {
  inproc::Network network(2, {.bytes_per_s = 128});
  network.come_to_boundary();
  EXPECT_EQ(arrival(network, {1, 0, 0, 8}), 8);
  network.leave_boundary(0);
  EXPECT_EQ(arrival(network, {1, 0, 256, 7}), 9);
}

// An empty message takes no time of a link, so it need not wait for what takes
// the link from the same moment on.
TEST(Network, AnEmptyMessagePassesWhereAMessageOfALaterClockBegins) {
  inproc::Network network(3, {.bytes_per_s = 128});
  network.come_to_boundary();
  EXPECT_EQ(arrival(network, {1, 0, 128, 8}), 9);
  network.leave_boundary(0);
  EXPECT_EQ(arrival(network, {2, 0, 0, 8}), 8);
  EXPECT_EQ(arrival(network, {2, 0, 128, 8}), 10);
}

// Two senders at 64 bytes/s together fill half of a link of 256 bytes/s.
TEST(Network, SlowSendersDoNotHoldUpAFastLink) {
  NetworkCost cost;
  cost.by_worker = {{0, 256}, {0, 64}, {0, 64}};
  EXPECT_EQ(arrivals(3, cost, {{1, 0, 128}, {2, 0, 128}}), (Times{2, 2}));
}

// The senders' links are free again after half a second, regardless of the
// receiver's link: a third message to another worker leaves immediately.
TEST(Network, ASlowReceiverDoesNotHoldUpItsSenders) {
  NetworkCost cost;
  cost.by_worker = {{0, 64}, {0, 256}, {0, 256}, {0, 256}};
  EXPECT_EQ(arrivals(4, cost, {{1, 0, 128}, {2, 0, 128}, {2, 3, 128, 0.5}}),
            (Times{2, 4, 1}));
}

// Each message occupies both links for a quarter of a second.
TEST(Network, EachMessageHasACostOfItsOwn) {
  NetworkCost cost{0.5, 128};
  cost.message_s = 0.25;
  EXPECT_EQ(arrivals(2, cost, {{0, 1, 0}, {0, 1, 0}, {0, 1, 32}}),
            (Times{0.75, 1.0, 1.5}));
}

// Islands {0, 1} and {2, 3}: 1024 bytes/s inside; outside 128 bytes/s per
// worker and the same for each island.
TEST(Network, WorkersOfAnIslandShareItsUplink) {
  NetworkCost cost{0.5, 128};
  cost.island = 2;
  cost.inside = {0.125, 1024};
  EXPECT_EQ(arrivals(4, cost, {{0, 2, 128}, {1, 3, 128}, {0, 1, 256}}),
            (Times{1.5, 1.5, 0.375}));
  cost.uplink_bytes_per_s = 128;
  EXPECT_EQ(arrivals(4, cost, {{0, 2, 128}, {1, 3, 128}, {0, 1, 256}}),
            (Times{1.5, 2.5, 0.375}));
  // The uplink of one island and the downlink of another, in both directions.
  EXPECT_EQ(arrivals(4, cost, {{0, 2, 128}, {3, 1, 128}}), (Times{1.5, 1.5}));
  // From two islands into a third: its downlink is shared.
  EXPECT_EQ(arrivals(6, cost, {{0, 4, 128}, {2, 5, 128}}), (Times{1.5, 2.5}));
}

// An uplink or a downlink with the rate of all its workers together delays
// none of them; with half of it, half of the messages come half as late again.
TEST(Network, AFullUplinkDelaysNobody) {
  NetworkCost cost{0.5, 128};
  cost.island = 4;
  cost.inside = {0.125, 1024};
  const std::vector<Sent> messages = {
      {0, 4, 128}, {1, 5, 128}, {2, 6, 128}, {3, 7, 128}};
  cost.uplink_bytes_per_s = 512;
  EXPECT_EQ(arrivals(8, cost, messages), (Times{1.5, 1.5, 1.5, 1.5}));
  // Each worker's next message follows at once.
  std::vector<Sent> twice = messages;
  twice.insert(twice.end(), messages.begin(), messages.end());
  EXPECT_EQ(arrivals(8, cost, twice),
            (Times{1.5, 1.5, 1.5, 1.5, 2.5, 2.5, 2.5, 2.5}));
  cost.uplink_bytes_per_s = 256;
  EXPECT_EQ(arrivals(8, cost, messages), (Times{1.5, 1.5, 2, 2.5}));
}

// Copies from and to the device run at half of the link's rate. They determine
// the rate but overlap with the transfer.
TEST(Network, CopiesToTheDeviceAreOnTheWay) {
  NetworkCost cost{0.5, 256};
  cost.device_bytes_per_s = 128;
  EXPECT_EQ(arrivals(2, cost, {{0, 1, 256}, {0, 1, 256}}), (Times{2.5, 4.5}));
}

// A link that is ten times slower from 1 s on delays only its own messages.
TEST(Network, ADegradedLinkIsThatOfTheSender) {
  NetworkCost cost{0, 128};
  cost.link = [](int rank, Time now) {
    return rank == 1 && now >= 1 ? NetworkCost::Link{0.25, 10}
                                 : NetworkCost::Link{};
  };
  EXPECT_EQ(arrivals(3, cost,
                     {{1, 0, 128}, {1, 2, 128, 0.5}, {0, 1, 128}, {2, 1, 128}}),
            (Times{1, 11.25, 1, 2}));
}

TEST(Network, PollingFindsArrivalsThatWereNotKnown) {
  make_inproc_world(3, {0.5, 128})->run([](Endpoint& endpoint) {
    std::array<char, 128> data{}, other{};
    if (endpoint.rank() > 0) {
      endpoint.wait(endpoint.isend({data.data(), 128}, 0, 1, kPayload));
      return;
    }
    const Request second = endpoint.irecv({other.data(), 128}, 2, 1);
    const Request first = endpoint.irecv({data.data(), 128}, 1, 1);
    while (!endpoint.test(first)) endpoint.yield();
    EXPECT_EQ(endpoint.now(), 1.5);
    EXPECT_FALSE(endpoint.test(second));
    while (!endpoint.test(second)) endpoint.yield();
    EXPECT_EQ(endpoint.now(), 2.5);
  });
}

TEST(Network, AServerTakesMessagesAsTheirTurnsComeOnItsLink) {
  Times times;
  make_inproc_world(4, {0.5, 128})->run([&](Endpoint& endpoint) {
    std::array<char, 128> data{};
    if (endpoint.rank() > 0) {
      endpoint.wait(endpoint.isend({data.data(), 128}, 0, 1, kPayload));
      return;
    }
    for (int from = 1; from < 4; ++from) {
      EXPECT_EQ(endpoint.recv_any({1, 1}).from, from);
      times.push_back(endpoint.now());
    }
  });
  EXPECT_EQ(times, (Times{1.5, 2.5, 3.5}));
}

// A link stays occupied when its worker's clock is set back.
TEST(Network, LinksKeepTheirClocks) {
  make_inproc_world(2, {0, 128})->run([](Endpoint& endpoint) {
    std::array<char, 256> data{};
    for (int i = 0; i < 2; ++i) {
      if (endpoint.rank() == 0) {
        endpoint.wait(endpoint.isend({data.data(), 256}, 1, 1, kPayload));
      } else {
        endpoint.wait(endpoint.irecv({data.data(), 256}, 0, 1));
      }
      EXPECT_EQ(endpoint.now(), 2 + 2 * i);
      endpoint.set_clock(0);
    }
  });
}

// --- collectives -------------------------------------------------------------

constexpr double kRate = 1e6;      // bytes per second
constexpr double kLatency = 1e-3;  // s

Time time_of(CollectiveAlgorithm algorithm,
             int workers,
             int64_t elems,
             const NetworkCost& cost) {
  Time latest = 0;
  make_inproc_world(workers, cost)->run([&](Endpoint& endpoint) {
    std::vector<float> values(elems, 1);
    all_reduce_sum(endpoint, endpoint.world_group(), values, algorithm,
                   Wire::kF32, tags::kCollective, kPayload);
    latest = std::max(latest, endpoint.now());
  });
  return latest;
}

// Messages of one segment each, equal links, one collective at a time.
class ClosedForm : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers,
                         ClosedForm,
                         testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33));

TEST_P(ClosedForm, OfACollective) {
  const int n = GetParam();
  const int64_t elems = 64 * n;
  const double b = 4.0 * static_cast<double>(elems) / kRate;
  const NetworkCost cost{kLatency, kRate};
  const auto expect = [&](CollectiveAlgorithm algorithm, double seconds) {
    EXPECT_NEAR(time_of(algorithm, n, elems, cost), seconds, 1e-9)
        << name_of(algorithm);
  };
  // 2 (N - 1) rounds of a chunk.
  const double ring = 2 * (n - 1) * (kLatency + b / n);
  expect(CollectiveAlgorithm::kRing, ring);
  expect(CollectiveAlgorithm::kNative, ring);
  // N - 1 messages queue on the server's link in each direction.
  expect(CollectiveAlgorithm::kParameterServer,
         n == 1 ? 0 : 2 * kLatency + 2 * (n - 1) * b);
  NetworkCost apart = cost;  // the first worker's messages queue as well
  apart.has_servers_apart = true;
  apart.server_bytes_per_s = kRate;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::kParameterServer, n, elems, apart),
              n == 1 ? 0 : 2 * kLatency + 2 * n * b, 1e-9);
  // Halving and doubling among the largest power of two, P: 2 log2 P messages,
  // 2 (P - 1) / P of the bytes. The others fold all of theirs in before, and
  // receive all sums after.
  const int p = 1 << static_cast<int>(std::log2(n));
  const double latencies = 2 * std::log2(p) * kLatency;
  const double halving = latencies + 2.0 * (p - 1) / p * b;
  const double folding = n == p ? 0 : 2 * (kLatency + b);
  expect(CollectiveAlgorithm::kButterfly, halving + folding);
  // Unless N is a power of two, messages between blocks share links with those
  // inside the larger one (test_virtual_time.cpp has N = 3 by hand). Only the
  // latencies have a closed form: a smaller block has its sums no later than
  // the larger one needs them.
  if (n == p) expect(CollectiveAlgorithm::kBinaryBlocks, halving);
  EXPECT_NEAR(time_of(CollectiveAlgorithm::kBinaryBlocks, n, elems,
                      NetworkCost{kLatency, 0}),
              latencies, 1e-9);
}

// Rounds of a chunk of L inside each host, and of a chunk of N between hosts.
TEST_P(ClosedForm, OfHosts) {
  const int n = GetParam();
  const int64_t elems = 64 * n;
  const double b = 4.0 * static_cast<double>(elems) / kRate;
  NetworkCost cost{kLatency, kRate};
  cost.inside = {kLatency, kRate};
  for (int L = 1; L <= n; ++L) {
    if (n % L != 0) continue;
    cost.island = L;
    EXPECT_NEAR(
        time_of(CollectiveAlgorithm::kHierarchical, n, elems, cost),
        2 * (L - 1) * (kLatency + b / L) + 2 * (n / L - 1) * (kLatency + b / n),
        1e-9)
        << L << " per host";
  }
}

// Two hosts of four. An uplink takes all bytes in 1 s, a link inside in 1/16.
TEST(Network, HierarchicalSparesASlowUplink) {
  constexpr int64_t kElems = 64 * 8;
  NetworkCost cost;
  cost.island = 4;
  cost.inside = {0, 16 * 4.0 * kElems};
  cost.uplink_bytes_per_s = 4.0 * kElems;
  // An uplink passes 14 chunks of an eighth, one after the other.
  EXPECT_NEAR(time_of(CollectiveAlgorithm::kRing, 8, kElems, cost), 14 / 8.0,
              1e-9);
  // It passes two messages of an eighth from each of its four workers. Before,
  // three quarters of the bytes pass the links inside; after, the quarter that
  // comes last passes three of them.
  EXPECT_NEAR(time_of(CollectiveAlgorithm::kHierarchical, 8, kElems, cost),
              3 / 64.0 + 8 / 8.0 + 3 / 64.0, 1e-9);
}

// Hosts of three and two workers, only latencies: 1 inside, 16 between. Slices
// are 0-0, 1-0, 1-1 and 2-1 (chunk of one host, of the other), of which the
// first and third are in one round, the others in the next.
TEST(Network, SlicesOfARoundTravelTogether) {
  NetworkCost cost{16, 0};
  cost.island = 3;
  cost.inside = {1, 0};
  EXPECT_EQ(time_of(CollectiveAlgorithm::kHierarchical, 5, 60, cost),
            2 + 2 * (2 * 16) + 2);
}

// The link of worker 1 of 4 takes ten times as long in both directions. The
// latency exceeds 2 B, so that the messages of the last two exchanges reach
// worker 1 in that order.
TEST(Network, OneSlowLinkChangesEachCollective) {
  constexpr int64_t kElems = 64 * 4;
  const double b = 4.0 * kElems / kRate;
  NetworkCost cost;
  constexpr double kLong = 5 * kLatency;
  cost.by_worker.assign(4, {kLong, kRate});
  cost.by_worker[1].bytes_per_s /= 10;
  const auto expect = [&](CollectiveAlgorithm algorithm, double seconds) {
    EXPECT_NEAR(time_of(algorithm, 4, kElems, cost), seconds, 1e-9)
        << name_of(algorithm);
  };
  // Worker 1 takes part in all four exchanges, of 1/2, 1/4, 1/4 and 1/2.
  expect(CollectiveAlgorithm::kButterfly, 4 * kLong + 10 * 1.5 * b);
  expect(CollectiveAlgorithm::kBinaryBlocks, 4 * kLong + 10 * 1.5 * b);
  // Its push takes 10 B, longer than all pushes of the others together; so does
  // its answer, which is the first to leave.
  expect(CollectiveAlgorithm::kParameterServer, 2 * (kLong + 10 * b));
  // The model of the native collective: all rounds at the slowest rate.
  expect(CollectiveAlgorithm::kNative, 6 * (kLong + 10 * b / 4));
}

// Worker 0 is the server, so every transfer takes ten times as long.
TEST(Network, ASlowServerDelaysEveryMessage) {
  NetworkCost cost;
  cost.by_worker.assign(4, {kLatency, kRate});
  cost.by_worker[0].bytes_per_s /= 10;
  const double b = 4.0 * 256 / kRate;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::kParameterServer, 4, 256, cost),
              2 * (kLatency + 3 * 10 * b), 1e-9);
}

// With two workers a ring is an exchange of halves, twice: each passes the slow
// link in one direction or the other. With four, chunk by chunk: worker 1 needs
// 10 c to take a chunk and as long to pass one on, both at once, so the chunks
// follow each other at a distance of 10 c: the 6th arrives at L + 60 c. It
// leaves again only as the 7th of a longer ring would; the last chunk that
// worker 1 sends is the 5th that it took (L + 50 c), which takes L + 10 c more.
TEST(Network, ASlowLinkSetsTheRateOfARing) {
  const double c = 4.0 * 64 / kRate;
  for (const int n : {2, 4}) {
    NetworkCost cost;
    cost.by_worker.assign(n, {kLatency, kRate});
    cost.by_worker[1].bytes_per_s /= 10;
    const double expected =
        n == 2 ? 2 * (kLatency + 10 * c) : 2 * kLatency + 60 * c;
    EXPECT_NEAR(time_of(CollectiveAlgorithm::kRing, n, 64 * n, cost), expected,
                1e-9)
        << n;
  }
}

}  // namespace
}  // namespace syncopate
