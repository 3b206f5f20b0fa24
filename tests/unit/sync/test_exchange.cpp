// Exchanges with neighbours: received values and the accounting of time.
#include "sync/exchange.h"

#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

constexpr int64_t kElems = 50;

// A worker's exchange of kElems floats with one slot or two.
struct Party {
  Party(Endpoint& endpoint, Wire wire, Traffic notes = Traffic::kControl)
      : endpoint(endpoint),
        model({kElems}, 0),
        schedule({}, 0.1, 1, 1),
        replica(test.context, model, {}),
        parts{.endpoint = endpoint,
              .context = test.context,
              .replica = replica,
              .model = model,
              .sync = sync,
              .optimizer = optimizer,
              .schedule = schedule},
        exchange(parts, replica.parameters.write(), 2, wire, notes) {}

  void fill(float value) {
    replica.parameters.assign(std::vector<float>(kElems, value));
  }
  // Sends to the right, receives from the left.
  void start_to_right(double note = 0) {
    const int n = endpoint.size(), rank = endpoint.rank();
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    exchange.start(std::span(&to, 1), std::span(&from, 1), note);
  }
  std::vector<float> values(std::span<const float> range) {
    OnHost host(test.device, *test.stream,
                {const_cast<float*>(range.data()), range.size()});
    return {host.values().begin(), host.values().end()};
  }

  Endpoint& endpoint;
  test::TestContext test{1};
  test::ToyModel model;
  SyncOptions sync;
  OptimizerOptions optimizer;
  Schedule schedule;
  Replica replica;
  SchemeParts parts;
  NeighbourExchange exchange;
};

TEST(NeighbourExchange, BringsMessagesAndNotes) {
  for (const int workers : {1, 2, 3, 4}) {
    make_inproc_world(workers, {})->run([&](Endpoint& endpoint) {
      Party party(endpoint, Wire::kF32, Traffic::kPayload);
      const int left = (endpoint.rank() + workers - 1) % workers;
      for (int round = 0; round < 3; ++round) {
        party.fill(static_cast<float>(10 * endpoint.rank() + round));
        party.start_to_right(0.5 * endpoint.rank());
        party.exchange.finish();
        EXPECT_EQ(
            party.values(party.exchange.incoming(0)),
            std::vector<float>(kElems, static_cast<float>(10 * left + round)));
        EXPECT_EQ(party.exchange.note(0), 0.5 * left);
      }
      const auto payload = static_cast<size_t>(Traffic::kPayload);
      EXPECT_EQ(endpoint.traffic().bytes_sent[payload],
                workers == 1 ? 0 : 3 * (4 * kElems + 8));
    });
  }
}

TEST(NeighbourExchange, RoundsToBf16AndTellsWhatWasSent) {
  make_inproc_world(2, {})->run([&](Endpoint& endpoint) {
    Party party(endpoint, Wire::kBf16);
    const float value = 1.001f + static_cast<float>(endpoint.rank());
    const auto rounded = [](float v) { return from_bf16(bf16_of(v)); };
    party.fill(value);
    party.start_to_right();
    party.exchange.finish();
    EXPECT_NE(rounded(value), value);
    EXPECT_EQ(party.values(party.exchange.sent())[kElems - 1], rounded(value));
    EXPECT_EQ(party.values(party.replica.parameters)[0], value);
    EXPECT_EQ(party.values(party.exchange.incoming(0))[kElems - 1],
              rounded(2.001f - static_cast<float>(endpoint.rank())));
  });
}

// 200 bytes at 100 bytes/s and a latency of 1: 3 s.
const NetworkCost kLink{.latency_s = 1, .bytes_per_s = 100};

TEST(NeighbourExchange, HidesUnderComputation) {
  make_inproc_world(2, kLink)->run([](Endpoint& endpoint) {
    Party party(endpoint, Wire::kF32);
    party.start_to_right();
    endpoint.advance(10);
    const SyncTimes times = party.exchange.finish();
    EXPECT_EQ(endpoint.now(), 10);
    EXPECT_EQ(times.exposed_s, 0);
    EXPECT_EQ(times.overlapped_s, 3);
    party.start_to_right();
    endpoint.advance(2);
    const SyncTimes short_of = party.exchange.finish();
    EXPECT_EQ(endpoint.now(), 13);
    EXPECT_EQ(short_of.exposed_s, 1);
    EXPECT_EQ(short_of.overlapped_s, 2);
    EXPECT_EQ(short_of.wait_s, 0);
  });
}

TEST(NeighbourExchange, TellsWaitingFromSending) {
  make_inproc_world(2, kLink)->run([](Endpoint& endpoint) {
    Party party(endpoint, Wire::kF32);
    if (endpoint.rank() == 1) endpoint.advance(5);
    party.start_to_right();
    const SyncTimes times = party.exchange.finish();
    // Worker 1's message has arrived; sending its own takes 2 s.
    EXPECT_EQ(times.exposed_s, endpoint.rank() == 0 ? 8 : 2);
    EXPECT_EQ(times.wait_s, endpoint.rank() == 0 ? 5 : 0);
  });
}

// A boundary while messages are in flight: the remaining time is not lost, also
// across a checkpoint.
TEST(NeighbourExchange, SettlesWithoutTakingTime) {
  for (const bool restarts : {false, true}) {
    make_inproc_world(2, kLink)->run([&](Endpoint& endpoint) {
      auto party = std::make_unique<Party>(endpoint, Wire::kF32);
      party->fill(static_cast<float>(endpoint.rank()));
      endpoint.advance(4);
      party->start_to_right();
      party->exchange.drain();
      EXPECT_EQ(party->values(party->exchange.incoming(0))[0],
                static_cast<float>(1 - endpoint.rank()));
      endpoint.set_clock(4);
      if (restarts) {
        test::StateInMemory state(test::StateInMemory::Way::kSave);
        party->exchange.visit_state(state);
        party = std::make_unique<Party>(endpoint, Wire::kF32);
        state.turn(test::StateInMemory::Way::kLoad);
        party->exchange.visit_state(state);
      }
      endpoint.advance(1);
      const SyncTimes times = party->exchange.finish();
      EXPECT_EQ(endpoint.now(), 7);
      EXPECT_EQ(times.exposed_s, 2);
      EXPECT_EQ(times.overlapped_s, 1);
      EXPECT_EQ(party->exchange.finish().exposed_s, 0);
    });
  }
}

// A resumed process may have a different clock (under MPI: seconds since its
// host booted): a round that was complete takes no time on it.
TEST(NeighbourExchange, IsOverByAnyClock) {
  make_inproc_world(2, kLink)->run([&](Endpoint& endpoint) {
    test::StateInMemory state(test::StateInMemory::Way::kSave);
    {
      Party party(endpoint, Wire::kF32);
      endpoint.advance(1e6);
      party.start_to_right();
      party.exchange.drain();
      endpoint.advance(1);
      party.exchange.visit_state(state);
    }
    endpoint.set_clock(0);
    Party party(endpoint, Wire::kF32);
    state.turn(test::StateInMemory::Way::kLoad);
    party.exchange.visit_state(state);
    const SyncTimes times = party.exchange.finish();
    EXPECT_EQ(endpoint.now(), 0);
    EXPECT_EQ(times.exposed_s, 0);
    EXPECT_EQ(times.overlapped_s, 3);
  });
}

}  // namespace
}  // namespace syncopate
