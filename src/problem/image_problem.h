// Images and their classes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/images/image_reader.h"
#include "data/images/normalization.h"
#include "data/sampler.h"
#include "problem/problem.h"

namespace syncopate {

// A training set in device memory, shared by the workers of a process.
struct ResidentSet {
  // Returns null if the device is the CPU, if the images have no fixed size, or
  // if the set would take more than a quarter of this process's share of the
  // device's memory. The share is one of the total, not of the free memory, so
  // that the choice depends on the machine alone.
  static std::unique_ptr<ResidentSet> make(Context& context,
                                           const ImageSet& set,
                                           const Normalization& normalization,
                                           int processes_a_device);
  void set_scale(Context& context, const PixelScale& values);

  Buffer memory;             // pixels, and last scale and shift
  ConstTensor pixels;        // (samples, H, W, C) u8 or fp32
  ConstTensor scale, shift;  // (C) fp32
};

// Returns the bytes of a batch on the host, for BatchUpload.
int64_t image_batch_bytes(const ImageSpec& spec, int64_t samples);

class ImageProblem final : public Problem {
 public:
  ImageProblem(const Options& options, int threads);

  SampleSpec spec() const override { return data_.train.spec; }
  SampleTable training_samples() const override { return data_.train; }
  SampleTable test_samples() const override { return data_.test; }
  std::string source() const override { return data_.source; }
  std::string digest() const override {
    return data_.train.digest + data_.test.digest;
  }
  std::vector<std::string> class_names() const override {
    return data_.train.class_names.empty() ? data_.test.class_names
                                           : data_.train.class_names;
  }
  int64_t memory_bytes() const override;
  // "normalization": the constants of data.normalize = auto.
  std::map<std::string, std::string> facts() const override;
  void restore(Context& context,
               const std::map<std::string, std::string>& facts) override;
  std::string doubt() const override;
  std::string describe() const override;
  std::string note(const Setup& setup) const override;
  std::string check() const override;
  void require_labels() const override;
  void prepare(const Setup& setup, int processes_a_device) override;
  std::unique_ptr<Feed> make_feed(const Setup& setup,
                                  int rank,
                                  int64_t first_batch) const override;
  std::unique_ptr<BatchSource> make_batches(const Setup& setup,
                                            SetPart part,
                                            int64_t max_samples) const override;
  std::vector<MetricInfo> metrics() const override;
  std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                      SetPart part) const override;
  void check_output(const fs::path& output) const override;
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override;

  const ImageSet& train() const { return data_.train; }
  const ImageSet& set(SetPart part) const {
    return part == SetPart::kTest ? data_.test : data_.train;
  }
  const Normalization& normalization() const { return normalization_; }
  // Null if batches come from the host.
  const ResidentSet* resident() const { return resident_.get(); }

 private:
  DataOptions options_;
  Dataset data_;
  Normalization normalization_;  // empty until restore() without a training set
  std::unique_ptr<ResidentSet> resident_;
};

}  // namespace syncopate
