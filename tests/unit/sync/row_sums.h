// Sums of gradients of tables and weights in rounds, as a reducer forms them on
// any device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/tags.h"
#include "sync/reducer.h"
#include "unit/sync/outcome.h"
#include "unit/sync/toy_model.h"

namespace syncopate::test {

// Rows that lie across blocks and that are longer than one, and weights.
inline const std::vector<Shape> kShapes = {
    Shape{501, 10}, Shape{501, 1}, Shape{90, 7}, Shape{5, 200}, Shape{30}};
inline constexpr size_t kTables = 4;

class MarkedTables final : public ToyModel {
 public:
  MarkedTables() : ToyModel(kTables, kShapes) {}
  bool marks_tables() const override { return true; }
};

enum class Marks : uint8_t { kMarked, kUnmarked };
// kExact: sums are the same in any order, also in bf16.
enum class Terms : uint8_t { kAny, kExact };

// Few rows of each table; none by most workers; nearly all, which travel by the
// ring, of the first table or of all; all by one worker, so that others get
// whole tables of which they touched little.
inline bool is_touched(int round, int rank, size_t tensor, int64_t row) {
  const bool is_one_of_few =
      (row * 7 + rank + round) % 23 == 0 || row % 61 == 3;
  switch (round) {
    case 1:
      return rank == 1 && is_one_of_few;
    case 2:
      return tensor == 0 || is_one_of_few;
    case 3:
      return row != 1;
    case 4:
      return rank == 0 || row == 3;
    default:
      return is_one_of_few;
  }
}
inline constexpr int kRounds = 6;

inline std::vector<float> gradient_of(const Model& model,
                                      int round,
                                      int rank,
                                      Terms terms) {
  std::vector<float> values(
      static_cast<size_t>(model.parameters().num_elems()));
  for (size_t t = 0; t < kShapes.size(); ++t) {
    const ParameterEntry& entry = model.parameters().entries()[t];
    const int64_t D = kShapes[t].rank() > 1 ? kShapes[t][1] : 1;
    for (int64_t i = 0; i < entry.elems(); ++i)
      if (t == kTables || is_touched(round, rank, t, i / D))
        values[static_cast<size_t>(entry.offset + i)] =
            terms == Terms::kExact
                ? (static_cast<float>((i + 3 * rank) % 15) - 7.5f) / 64
                : 1 / (1.5f + static_cast<float>(rank + i % 97));
  }
  return values;
}

template <typename T>
std::vector<T> on_host(Device& device,
                       Stream& stream,
                       const T* from,
                       size_t n) {
  std::vector<T> values(n);
  stream.synchronize();
  device.copy(values.data(), from, static_cast<int64_t>(n * sizeof(T)), stream);
  stream.synchronize();
  return values;
}

// As backward leaves it.
inline void write(Device& device,
                  Stream& stream,
                  GradientValues& gradients,
                  const std::vector<float>& values,
                  Marks which) {
  if (which == Marks::kUnmarked) return gradients.assign(values);
  const TouchedBlocks touched = gradients.marks();
  const size_t blocks = (values.size() - 1) / TouchedBlocks::kElems + 1;
  std::vector<uint8_t> marks = on_host(device, stream, touched.marks, blocks);
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t& mark = marks[i / TouchedBlocks::kElems];
    if (values[i] != 0 && mark == TouchedBlocks::kUntouched)
      mark = TouchedBlocks::kTouched;
  }
  device.copy(touched.marks, marks.data(), std::ssize(marks), stream);
  device.copy(gradients.marked().data(), values.data(),
              std::ssize(values) * int64_t{sizeof(float)}, stream);
}

inline void expect_marked(Device& device,
                          Stream& stream,
                          const GradientValues& gradients,
                          const std::vector<float>& values) {
  const TouchedBlocks touched = gradients.touched();
  if (touched.marks == nullptr) return;
  const size_t blocks = (values.size() - 1) / TouchedBlocks::kElems + 1;
  const auto marks = on_host(device, stream, touched.marks, blocks);
  int64_t missing = 0;
  for (size_t i = 0; i < values.size(); ++i)
    missing += values[i] != 0 && marks[i / TouchedBlocks::kElems] == 0;
  EXPECT_EQ(missing, 0);
}

// A worker that sums up gradients of tables and weights in rounds.
class RowSums {
 public:
  RowSums(Device& device,
          Endpoint& endpoint,
          Terms terms,
          DeviceCollectives* collectives = nullptr)
      : device_(device),
        endpoint_(endpoint),
        terms_(terms),
        stream_(device.make_stream()),
        context_(device, *stream_, 1),
        replica_(context_, model_, {}),
        schedule_({}, 0.1, 1, 1),
        reducer_(make_reducer({.endpoint = endpoint,
                               .context = context_,
                               .replica = replica_,
                               .model = model_,
                               .sync = sync_,
                               .optimizer = optimizer_,
                               .schedule = schedule_,
                               .collectives = collectives})) {}

  Outcome run(Wire wire, Marks which) {
    Outcome mine;
    const int rank = endpoint_.rank();
    const int64_t tables = model_.parameters().entries()[kTables].offset;
    const int64_t weights = kShapes[kTables].elems();
    GradientValues& gradients = replica_.gradients;
    for (int round = 0; round < kRounds; ++round) {
      endpoint_.advance(0.01 * rank);
      gradients.clear(context_);
      write(device_, *stream_, gradients,
            gradient_of(model_, round, rank, terms_), which);
      const std::span<float> values = gradients.marked();
      reducer_->start(
          {"weights", values.last(weights), 0, weights, wire, tags::kBucket});
      endpoint_.advance(0.001);
      reducer_->start({.name = "tables",
                       .range = values.first(tables),
                       .elems = tables,
                       .wire = wire,
                       .tag = tags::kBucket + 1,
                       .is_tables = true,
                       .touched = gradients.touched()});
      reducer_->close();
      mine.times.add(reducer_->finish());
      mine.values.push_back(
          on_host(device_, *stream_, values.data(), values.size()));
      expect_marked(device_, *stream_, gradients, mine.values.back());
    }
    mine.times.add(reducer_->quiesce());
    mine.end(endpoint_);
    return mine;
  }

 private:
  Device& device_;
  Endpoint& endpoint_;
  const Terms terms_;
  const MarkedTables model_;
  const SyncOptions sync_;
  const OptimizerOptions optimizer_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  Replica replica_;
  const Schedule schedule_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace syncopate::test
