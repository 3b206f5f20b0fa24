// What an exchange of embedding tables' rows under bsp reads, writes, copies
// and keeps on the host, with workers that share a GPU.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/tags.h"
#include "comm/world.h"
#include "emulator/memory.h"
#include "emulator/traffic.h"
#include "support/test_device.h"
#include "sync/bucket.h"
#include "unit/sync/toy_model.h"

namespace syncopate {
namespace {

using emulator::TrafficMeter;

constexpr int64_t kWorkers = 2, kElems = 10, kTouched = 60, kSingle = 4;

// Two tables of `rows` rows, and weights.
class TwoTables final : public test::ToyModel {
 public:
  explicit TwoTables(int64_t rows)
      : ToyModel(2, {Shape{rows, kElems}, Shape{rows, 1}, Shape{300}}) {}
  bool marks_tables() const override { return true; }
};

// Writes to the same number of rows whatever the table, as backward would.
void touch_rows(test::TestContext& on,
                GradientValues& gradients,
                int64_t rows) {
  gradients.clear(on.context);
  const std::vector<float> ones(kElems, 1.0f);
  const std::vector<uint8_t> marks(2, TouchedBlocks::kTouched);
  const TouchedBlocks touched = gradients.marks();
  for (int64_t i = 0; i < kTouched; ++i) {
    const int64_t row = rows / kTouched * i;
    for (const auto& [place, elems] :
         {std::pair{row * kElems, kElems},
          std::pair{rows * kElems + row, int64_t{1}}}) {
      on.device.copy(gradients.marked().data() + place, ones.data(),
                     elems * kSingle, *on.stream);
      const int64_t first = place / TouchedBlocks::kElems;
      const int64_t last = (place + elems - 1) / TouchedBlocks::kElems;
      on.device.copy(touched.marks + first, marks.data(), last - first + 1,
                     *on.stream);
    }
  }
}

struct Cost {
  int64_t touched_bytes = 0;  // by kernels
  int64_t copied_bytes = 0;   // over the bus
  int64_t locked_bytes = 0;   // of the host's memory
};

// Of a step after a first one, which makes memory: from the end of backward to
// the end of the update, for both workers.
Cost cost_of_step(int64_t rows, Wire wire) {
  Cost cost;
  const int64_t locked_before = emulator::used_locked_bytes();
  make_inproc_world(kWorkers, {})->run([&](Endpoint& endpoint) {
    test::TestContext on{1};
    const TwoTables model(rows);
    const OptimizerOptions optimizer{.kind = "adam",
                                     .embedding = RowUpdates::kLazy};
    Replica replica(on.context, model, optimizer);
    SyncOptions sync;
    sync.wire = wire;
    const Schedule schedule({}, 0.1, 1, 1);
    const auto scheme = make_scheme({.endpoint = endpoint,
                                     .context = on.context,
                                     .replica = replica,
                                     .model = model,
                                     .sync = sync,
                                     .optimizer = optimizer,
                                     .schedule = schedule,
                                     .total_steps = 2});
    Bucketer bucketer(model.parameters(), sync, nullptr);
    const auto all_are_here = [&] {
      on.stream->synchronize();
      barrier(endpoint, endpoint.world_group(), tags::kEvaluation);
    };
    scheme->enter();
    scheme->begin({0, 2 * kWorkers, 0});
    std::optional<TrafficMeter> meter;
    for (int step = 0; step < 2; ++step) {
      const StepPlan plan = scheme->next({});
      scheme->begin_step(plan);
      touch_rows(on, replica.gradients, rows);
      all_are_here();
      if (step == 1 && endpoint.rank() == 0) meter.emplace();
      all_are_here();
      bucketer.start();
      bucketer.final_from(0, [&](const Bucket& bucket) {
        scheme->gradient_ready(bucket, plan);
      });
      scheme->update(plan);
      scheme->end_step(plan);
      all_are_here();
    }
    if (meter) {
      cost.touched_bytes = meter->total().bytes();
      cost.copied_bytes = meter->copied_bytes();
      cost.locked_bytes = emulator::used_locked_bytes() - locked_before;
    }
    all_are_here();
  });
  return cost;
}

// What grows on the GPU are the marks, a byte for 512, which four passes read,
// and counts, 4 bytes for 32 KiB. (A pass over the table would be 44 bytes a
// row.)
TEST(RowTraffic, AStepDoesNotGrowWithItsTables) {
  constexpr int64_t kRows = 100'000, kRow = (kElems + 1) * kSingle;
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    const Cost small = cost_of_step(kRows, wire);
    const Cost large = cost_of_step(5 * kRows, wire);
    const std::string name = name_of(wire);
    RecordProperty(name + "_by_kernels", std::to_string(large.touched_bytes));
    RecordProperty(name + "_copied", std::to_string(large.copied_bytes));
    RecordProperty(name + "_on_host", std::to_string(large.locked_bytes));
    EXPECT_LE(large.touched_bytes - small.touched_bytes,
              kWorkers * 4 * kRows * kRow / 100);
    EXPECT_EQ(large.copied_bytes, small.copied_bytes);
    EXPECT_EQ(large.locked_bytes, small.locked_bytes);
    EXPECT_LT(large.locked_bytes, kRows);
  }
}

}  // namespace
}  // namespace syncopate
