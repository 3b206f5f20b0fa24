// Classification of vectors: softmax cross-entropy and accuracy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/vectors/vector_set.h"
#include "problem/problem.h"

namespace syncopate {

class VectorProblem final : public Problem {
 public:
  explicit VectorProblem(const Options& options);

  SampleSpec spec() const override { return data_.spec; }
  SampleTable training_samples() const override;
  SampleTable test_samples() const override;
  std::string source() const override { return data_.source; }
  std::string digest() const override { return data_.digest; }
  int64_t memory_bytes() const override;
  std::string describe() const override;
  std::string check() const override { return ""; }
  std::unique_ptr<BatchSource> make_batches(const Setup& setup,
                                            SetPart part,
                                            int64_t max_samples) const override;
  std::vector<MetricInfo> metrics() const override;
  std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                      SetPart part) const override;
  void check_output(const fs::path& output) const override;
  // sample,label,prediction
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override;

 private:
  const VectorSet& set(SetPart part) const {
    return part == SetPart::kTest ? data_.test : data_.train;
  }
  VectorData data_;
};

}  // namespace syncopate
