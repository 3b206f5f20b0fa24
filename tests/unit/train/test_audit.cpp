#include "train/audit.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/rng.h"
#include "comm/world.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

// One worker's state, some of it shared.
struct State {
  explicit State(const ParameterTable& table)
      : device(test_device()),
        stream(device.make_stream()),
        parameters(device, *stream, table.num_elems()),
        momentum(device, *stream, table.num_elems()) {
    Rng rng(7, Purpose::kTest, 0);
    const auto fill = [&](DeviceVector<float>& range) {
      std::vector<float> values(static_cast<size_t>(range.size()));
      for (float& value : values)
        value = static_cast<float>(rng.next_u32()) * 0x1.0p-32f;
      range.assign(values);
    };
    fill(parameters);
    fill(momentum);
  }
  Device& device;
  std::unique_ptr<Stream> stream;
  DeviceVector<float> parameters, momentum;
  int64_t steps = 12, own_steps = 0;
};

enum class Piece { kParameters, kMomentum, kSteps, kOwnSteps };
struct Flip {
  int rank;
  Piece piece;
  size_t place = 0;
  int bit = 0;
};

ParameterTable small_table() {
  ParameterTable table;
  table.add("conv.weight", {40, 3, 3, 3}, Role::kWeight);
  table.add("conv.bias", {40}, Role::kBias);
  table.add("fc.weight", {10, 1000}, Role::kWeight);
  return table;
}

void flip_float(DeviceVector<float>& range, size_t place, int bit) {
  OnHost host(range);
  float& value = host.values()[place];
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u << bit);
  host.put_back();
}

// The finding that each worker gets; all must be equal.
std::string audit(int workers, const std::vector<Flip>& flips) {
  const ParameterTable table = small_table();
  std::vector<std::string> told(static_cast<size_t>(workers));
  make_inproc_world(workers, {})->run([&](Endpoint& endpoint) {
    TestContext test(1);
    State state(table);
    state.own_steps = endpoint.rank();
    for (const Flip& flip : flips) {
      if (flip.rank != endpoint.rank()) continue;
      if (flip.piece == Piece::kParameters)
        flip_float(state.parameters, flip.place, flip.bit);
      if (flip.piece == Piece::kMomentum)
        flip_float(state.momentum, flip.place, flip.bit);
      if (flip.piece == Piece::kSteps) state.steps ^= int64_t{1} << flip.bit;
      if (flip.piece == Piece::kOwnSteps) state.own_steps += 5;
    }
    told[static_cast<size_t>(endpoint.rank())] =
        audit_replicas(test.context, endpoint, [&](StateVisitor& visitor) {
          visitor.visit(Owner::kShared, "steps", std::span(&state.steps, 1));
          visitor.visit_device_range(Owner::kShared, "parameters", table,
                                     state.parameters);
          visitor.visit_device(Owner::kShared, "momentum", state.momentum);
          visitor.visit(Owner::kWorker, "own_steps",
                        std::span(&state.own_steps, 1));
        });
  });
  for (const std::string& text : told) EXPECT_EQ(text, told[0]);
  return told[0];
}

TEST(Audit, EqualReplicasPass) {
  for (const int workers : {1, 2, 5}) EXPECT_EQ(audit(workers, {}), "");
}

TEST(Audit, WhatIsAWorkersOwnMayDiffer) {
  EXPECT_EQ(audit(3, {{.rank = 1, .piece = Piece::kOwnSteps}}), "");
}

TEST(Audit, FindsEveryFlippedBit) {
  const ParameterTable table = small_table();
  Rng rng(1, Purpose::kTest, 1);
  for (int trial = 0; trial < 100; ++trial) {
    const Flip flip{
        .rank = static_cast<int>(rng.next_u32() % 4),
        .piece =
            rng.next_u32() % 2 == 0 ? Piece::kParameters : Piece::kMomentum,
        .place = rng.next_u32() % static_cast<size_t>(table.num_elems()),
        .bit = static_cast<int>(rng.next_u32() % 32)};
    const std::string tensor =
        flip.piece == Piece::kMomentum
            ? "momentum"
            : "parameters/" +
                  table[table.find(static_cast<int64_t>(flip.place))].name;
    EXPECT_EQ(audit(4, {flip}),
              fmt::format("worker {} of 4 differs from the others, first in "
                          "'{}'",
                          flip.rank, tensor));
  }
}

TEST(Audit, FindsAFlippedBitOfWhatIsCounted) {
  EXPECT_EQ(audit(3, {{.rank = 2, .piece = Piece::kSteps, .bit = 40}}),
            "worker 2 of 3 differs from the others, first in 'steps'");
}

TEST(Audit, NamesTheMinorityOrAll) {
  const Flip first{.rank = 0, .piece = Piece::kParameters, .place = 1085};
  const Flip second{.rank = 3, .piece = Piece::kParameters, .place = 1079};
  EXPECT_EQ(audit(2, {first}),
            "workers 0, 1 differ, first in 'parameters/conv.bias'");
  EXPECT_EQ(audit(5, {first, second}),
            "workers 0, 3 of 5 differ from the others, first in "
            "'parameters/conv.weight'");
  Flip same = first;
  same.rank = 1;
  EXPECT_EQ(audit(4, {first, same}),
            "workers 0, 1, 2, 3 differ, first in 'parameters/conv.bias'");
}

}  // namespace
}  // namespace syncopate
