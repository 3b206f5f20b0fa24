// The way of a batch from the host to the device.
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

// Page-locked host memory for what is on its way to the device: pieces that are
// taken in turn when their last copy is done.
class Staging {
 public:
  // With two pieces more than a step has batches, waiting for a copy is
  // waiting for an earlier step.
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

// Memory of all tensors of a batch together; they need no data.
int64_t packed_bytes(Batch batch);

// Copies batches of the host to two halves of a double buffer in turn, beside
// the work on the batch before; hands them on as they are where the device is
// the CPU.
class BatchUpload {
 public:
  // `max_bytes`: packed_bytes of the largest batch.
  BatchUpload(Context& context, int64_t max_bytes, int64_t batches_a_step = 1);
  ~BatchUpload();  // waits for what uses the batches
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

// Of kinds whose batches are made in no time: `Host` has
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

// A worker's training batches from a source of any, made when they are asked
// for: all of that is time waited.
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
