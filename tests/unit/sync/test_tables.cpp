// Tables of embeddings: bsp sends the rows that some worker touched and trains
// as with whole tables.
#include "comm/row_exchange.h"
#include "sync/planned_bytes.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

constexpr int64_t kRows = 400, kElems = 10;

bool is_touched(int rank, int64_t step, int64_t row) {
  return (row + 5 * rank + 3 * step) % 37 == 0 || row == 2;
}

// The gradient of both tables; multiples of 1/64, so that sums are exact in any
// order, also in bf16.
void sparse_gradient(int rank,
                     int64_t step,
                     std::span<const float> x,
                     std::span<float> gradient) {
  const auto value = [&](size_t i) {
    const auto term = static_cast<int64_t>(i) * 7 + rank * 3 + step;
    return static_cast<float>(term % 15 - 7.5f) / 64;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t embedding = kRows * kElems;
    const int64_t row = at < embedding ? at / kElems : at - embedding;
    if (row >= kRows || is_touched(rank, step, row)) gradient[i] = value(i);
  }
}

ToyRun run_with_tables() {
  ToyRun run;
  run.shapes = {Shape{kRows, kElems}, Shape{kRows, 1}, Shape{8, 12}, Shape{12}};
  run.num_tables = 2;
  run.num_buffers = 0;
  run.steps = 6;
  run.gradient = sparse_gradient;
  return run;
}

struct BothWays {
  test::ToyResult by_rows, dense;
};

// The same parameters by rows and by whole tables.
BothWays expect_same(int workers, ToyRun run) {
  BothWays both;
  both.by_rows = test::train_toy(workers, run);
  run.sync.tables = TableTraffic::kDense;
  both.dense = test::train_toy(workers, run);
  EXPECT_EQ(both.by_rows.parameters, both.dense.parameters);
  return both;
}

int64_t table_bytes(int position, int workers, int64_t steps, Wire wire) {
  int64_t bytes = 0;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<TouchedRows> tables = {{kRows * kElems, kElems, {}},
                                       {kRows, 1, {}}};
    for (int rank = 0; rank < workers; ++rank) {
      int64_t count = 0;
      for (int64_t row = 0; row < kRows; ++row)
        count += is_touched(rank, step, row);
      for (TouchedRows& table : tables) {
        table.rows.push_back(count);
        EXPECT_LT(count, kRows / 8);
      }
    }
    for (const TouchedRows& table : tables)
      EXPECT_TRUE(travels_as_rows(table, wire));
    bytes += all_reduce_rows_bytes(tables, position, wire);
  }
  return bytes;
}

TEST(Tables, RowsTrainAsWholeTablesDo) {
  for (const Wire wire : {Wire::kF32, Wire::kBf16})
    for (const int workers : {1, 2, 3, 4}) {
      ToyRun run = run_with_tables();
      run.sync.wire = wire;
      run.optimizer.momentum = 0.9;
      const auto [by_rows, dense] = expect_same(workers, run);
      test::expect_equal_replicas(by_rows);
      for (int rank = 0; workers > 1 && rank < workers; ++rank)
        EXPECT_LT(2 * by_rows.payload_bytes[rank], dense.payload_bytes[rank]);
    }
}

// Rows by their formula, the rest in buckets of 16 elements by the ring.
TEST(Tables, PayloadIsThatOfTheRows) {
  for (const Wire wire : {Wire::kF32, Wire::kBf16})
    for (const int workers : {1, 2, 3, 4}) {
      ToyRun run = run_with_tables();
      run.sync.wire = wire;
      const auto result = test::train_toy(workers, run);
      for (int rank = 0; rank < workers; ++rank) {
        int64_t expected = 0;
        if (workers > 1) expected = table_bytes(rank, workers, run.steps, wire);
        for (int64_t end = 8 * 12 + 12; end > 0; end -= run.bucket_elems)
          expected += run.steps * all_reduce_bytes(
                                      CollectiveAlgorithm::kRing, workers, rank,
                                      std::min(end, run.bucket_elems), wire);
        EXPECT_EQ(result.payload_bytes[rank], expected);
      }
    }
}

// Local clipping scales gradients before they travel.
TEST(Tables, RowsAreClippedLocally) {
  ToyRun run = run_with_tables();
  run.optimizer.clip_norm = 0.5;
  run.sync.bsp.clip = ClipPlace::kLocal;
  expect_same(2, run);
}

TEST(Tables, PhasesOfSyncSwitchSendRows) {
  ToyRun run = run_with_tables();
  run.sync.scheme = "sync_switch";
  run.sync.sync_switch.order = {"10"};
  run.sync.sync_switch.fractions = {0.5, 0.5};
  const auto [by_rows, dense] = expect_same(2, run);
  EXPECT_LT(by_rows.payload_bytes[0], dense.payload_bytes[0]);
}

// The rows of batches are not known in advance; whole tables are.
TEST(Tables, PlannedBytesAreKnownForWholeTables) {
  ToyRun run = run_with_tables();
  const auto planned = [&](const test::ToyModel& model, int workers) {
    return planned_bytes(
        {run.sync, run.optimizer, model.parameters(), workers, run.steps}, 0);
  };
  const test::ToyModel with_tables(2, run.shapes), without(run.shapes);
  EXPECT_FALSE(planned(with_tables, 4).has_value());
  EXPECT_EQ(planned(with_tables, 1), 0);
  EXPECT_TRUE(planned(without, 4).has_value());
  run.sync.tables = TableTraffic::kDense;
  EXPECT_EQ(planned(with_tables, 4), planned(without, 4));
}

}  // namespace
}  // namespace syncopate
