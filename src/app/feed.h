// A worker's training batches in the memory of its device.
//
// On the CPU they are the loader's own. A GPU that has room keeps the whole
// training set: a batch is then a list of draws, and a kernel reads, augments
// and normalises. Files of JPEGs it decodes where it can, so that the host only
// reads them. Otherwise the loader's batches are copied through page-locked
// memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "data/loader.h"
#include "ops/augment.h"

namespace syncopate {

struct Engine;

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

// Copies batches of the host to two places of the device in turn, beside the
// work on the batch before; hands them on as they are where the device is the
// CPU.
class BatchUpload {
 public:
  BatchUpload(Context& context,
              const ImageSpec& spec,
              int64_t max_samples,
              int64_t batches_a_step = 1);
  ~BatchUpload();  // waits for what uses the batches
  Batch put(const Batch& host);

 private:
  struct Place {
    Buffer images, labels;
    std::unique_ptr<Event> arrived, used;
  };
  Context& context_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Stream> copies_;
  Place places_[2];
  int now_ = 0;
};

// A training set in device memory, shared by the workers of a process.
struct ResidentSet {
  // Null where the device is the CPU, the images have no fixed size, or more
  // than a quarter of this process's share of the device's memory would go (of
  // all of it, so that what is done depends on the machine alone).
  static std::unique_ptr<ResidentSet> make(Context& context,
                                           const ImageSet& set,
                                           const Normalization& normalization,
                                           int processes_a_device);
  Buffer memory;
  ConstTensor pixels;        // (samples, H, W, C) u8 or fp32
  ConstTensor scale, shift;  // (C) fp32
};

class Feed {
 public:
  virtual ~Feed() = default;
  // The view is valid until the next call, for work of the context's stream.
  virtual Batch next() = 0;
  virtual double wait_s() const = 0;  // time next() had to wait, in all

  // Worker `rank`, from batch `first_batch` of the run on.
  static std::unique_ptr<Feed> make(const Engine& engine,
                                    int rank,
                                    int64_t first_batch);
};

}  // namespace syncopate
