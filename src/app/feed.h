// A worker's training batches in the memory of its device.
//
// On the CPU they are the loader's own. A GPU that has room keeps the whole
// training set: a batch is then a list of draws, and a kernel reads, augments
// and normalises. Otherwise the loader's batches are copied through
// page-locked memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "data/loader.h"
#include "ops/augment.h"

namespace syncopate {

struct Engine;

// Page-locked host memory for what is on its way to the device: a few pieces,
// taken in turn when their last copy is done.
class Staging {
 public:
  Staging(Device& device, int64_t bytes);
  void* next();               // waits for the copy of three calls ago
  void sent(Stream& stream);  // its copy was given to the stream

 private:
  static constexpr int kPieces = 3;
  HostBuffer memory_[kPieces];
  std::unique_ptr<Event> copied_[kPieces];
  int piece_ = 0;
};

// Copies batches of the host to fixed places of the device; hands them on as
// they are where the device is the CPU.
class BatchUpload {
 public:
  BatchUpload(Context& context, const ImageSpec& spec, int64_t max_samples);
  Batch put(const Batch& host);

 private:
  Context& context_;
  ImageSpec spec_;
  std::unique_ptr<Staging> staging_;
  Buffer images_, labels_;
};

// A training set in device memory, shared by the workers of a process.
struct ResidentSet {
  // Null where the device is the CPU, the images have no fixed size, or more
  // than half of the device's free memory would go.
  static std::unique_ptr<ResidentSet> make(Context& context,
                                           const ImageSet& set,
                                           const Normalization& normalization);
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
