// Moves batches from the host to the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "data/sampler.h"
#include "device/device.h"
#include "ops/context.h"
#include "problem/problem.h"

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

// For kinds of samples whose batches are cheap to make. `Host` provides
// Batch fill(std::span<const int64_t> samples), valid until the next call.
template <typename Host>
class HostBatches final : public BatchSource {
 public:
  HostBatches(Context& context,
              Host host,
              int64_t max_bytes,
              int64_t batches_a_step = 1)
      : host_(std::move(host)), upload_(context, max_bytes, batches_a_step) {}
  Batch get(std::span<const int64_t> samples) override {
    return upload_.put(host_.fill(samples));
  }

 private:
  Host host_;
  BatchUpload upload_;
};

// A worker's training batches from a source of arbitrary batches. They are made
// on demand, and all of that time counts as waiting.
class SourceFeed final : public Feed {
 public:
  SourceFeed(std::unique_ptr<BatchSource> source,
             const Sampler& sampler,
             int rank,
             int64_t first_batch)
      : source_(std::move(source)),
        sampler_(sampler),
        rank_(rank),
        next_(first_batch) {}
  Batch next() override {
    const double begin_s = monotonic_s();
    const Batch batch = source_->get(sampler_.batch(rank_, next_++));
    wait_s_ += monotonic_s() - begin_s;
    return batch;
  }
  double wait_s() const override { return wait_s_; }

 private:
  std::unique_ptr<BatchSource> source_;
  const Sampler& sampler_;
  int rank_;
  int64_t next_;
  double wait_s_ = 0;
};

}  // namespace syncopate
