// Moves batches from the host to the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/read_ahead.h"
#include "data/sampler.h"
#include "device/device.h"
#include "ops/context.h"
#include "problem/problem.h"
#include "problem/setup.h"

namespace syncopate {

// Page-locked host memory for copies to the device. Its pieces are used in
// turn, each again only when its previous copy is complete.
class Staging {
 public:
  // Has two pieces more than a step has batches, so that waiting for a copy
  // means waiting for an earlier step.
  Staging(Device& device, int64_t bytes, int64_t batches_a_step);
  void* next();
  void sent(Stream& stream);  // its copy was given to the stream

 private:
  struct Piece {
    HostBuffer memory;
    std::unique_ptr<Event> copied;
  };
  std::vector<Piece> pieces_;
  size_t piece_ = 0;
};

// Rounds up to where another tensor may begin in device memory.
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}
// Returns the bytes of all tensors of a batch together. Their data may be null.
int64_t packed_bytes(Batch batch);

// Copies host batches alternately to the two halves of a double buffer,
// concurrently with the work on the previous batch. If the device is the CPU,
// returns host batches unchanged.
class BatchUpload {
 public:
  // `max_bytes` is packed_bytes() of the largest batch.
  BatchUpload(Context& context, int64_t max_bytes, int64_t batches_a_step = 1);
  ~BatchUpload();  // waits for the work that uses the batches
  Batch put(const Batch& host);

 private:
  struct Half {
    Buffer memory;
    std::unique_ptr<Event> arrived, used;
  };
  Context& context_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Stream> copies_;
  Half halves_[2];
  int now_ = 0;
};

// Assigns the given samples to a batch on the host and returns a view of it.
template <typename HostBatch>
using Fill = std::function<Batch(HostBatch&, std::span<const int64_t>)>;

// Problem::touched_rows for batches that `fill` makes.
template <typename HostBatch>
std::vector<std::vector<int32_t>> touched_rows(const Setup& setup,
                                               int rank,
                                               int64_t first_batch,
                                               int64_t batches,
                                               const Fill<HostBatch>& fill) {
  std::vector<std::vector<int32_t>> rows;
  HostBatch batch;
  for (int64_t i = 0; i < batches; ++i) {
    const auto tables = setup.model->lookups(
        fill(batch, setup.sampler->batch(rank, first_batch + i)));
    rows.resize(tables.size());
    for (size_t t = 0; t < tables.size(); ++t)
      rows[t].insert(rows[t].end(), tables[t].begin(), tables[t].end());
  }
  for (std::vector<int32_t>& of_table : rows) {
    std::ranges::sort(of_table);
    const auto repeated = std::ranges::unique(of_table);
    of_table.erase(repeated.begin(), repeated.end());
  }
  return rows;
}

// For kinds of samples whose batches are cheap to make.
template <typename HostBatch>
class HostBatches final : public BatchSource {
 public:
  // `max_bytes` is as in BatchUpload.
  HostBatches(Context& context, int64_t max_bytes, Fill<HostBatch> fill)
      : fill_(std::move(fill)), upload_(context, max_bytes) {}
  Batch get(std::span<const int64_t> samples) override {
    return upload_.put(fill_(batch_, samples));
  }

 private:
  Fill<HostBatch> fill_;
  HostBatch batch_;
  BatchUpload upload_;
};

// A worker's training batches, data.prefetch of which a thread makes ahead on
// the host.
template <typename HostBatch>
class AheadFeed final : public Feed {
 public:
  // The feed's thread calls `fill`. `max_bytes` is as in BatchUpload.
  AheadFeed(const Setup& setup,
            int rank,
            int64_t first_batch,
            int64_t max_bytes,
            Fill<HostBatch> fill)
      : upload_(*setup.context, max_bytes, setup.options.data.accumulate),
        batches_(setup.options.data.prefetch,
                 [sampler = *setup.sampler,
                  rank,
                  first_batch,
                  fill = std::move(fill)](int64_t number, Made& made) {
                   made.view = fill(made.batch,
                                    sampler.batch(rank, first_batch + number));
                 }) {}
  Batch next() override { return upload_.put(batches_.next().view); }
  double wait_s() const override { return batches_.wait_s(); }

 private:
  struct Made {
    HostBatch batch;
    Batch view;
  };
  BatchUpload upload_;
  ReadAhead<Made> batches_;
};

}  // namespace syncopate
