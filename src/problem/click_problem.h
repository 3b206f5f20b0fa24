// Clicks on advertisements (Criteo): batches of table rows, log loss and the
// area under the curve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/clicks/click_set.h"
#include "data/sampler.h"
#include "device/device.h"
#include "problem/problem.h"

namespace syncopate {

// The training records in device memory, shared by the workers of a process.
struct ResidentClicks {
  // Returns null under the conditions of ResidentSet::make (image_problem.h).
  static std::unique_ptr<ResidentClicks> make(const Setup& setup,
                                              const ClickSet& set,
                                              const ClickSpec& spec,
                                              int processes_a_device);

  Buffer memory;
  ConstTensor table;    // (samples, F) i32, rows of the whole table
  ConstTensor clicked;  // (samples) u8
};

class ClickProblem final : public Problem {
 public:
  explicit ClickProblem(const Options& options);

  SampleSpec spec() const override { return data_.spec; }
  SampleTable training_samples() const override;
  SampleTable test_samples() const override;
  std::string source() const override { return data_.source; }
  std::string digest() const override { return data_.digest; }
  int64_t memory_bytes() const override;
  std::string describe() const override;
  std::string note(const Setup& setup) const override;
  std::string check() const override;
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
  // sample,label,probability
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override;

  const ClickSet& set(SetPart part) const {
    return part == SetPart::kTest ? *data_.test : *data_.train;
  }

 private:
  ClickData data_;
  std::string folder_;                        // of prepared files; empty: made
  std::unique_ptr<ResidentClicks> resident_;  // null: batches from the host
};

}  // namespace syncopate
