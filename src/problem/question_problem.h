// Questions about texts (SQuAD): batches of token windows, answers, exact match
// and F1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/questions/answers.h"
#include "data/questions/question_set.h"
#include "data/sampler.h"
#include "problem/problem.h"

namespace syncopate {

class QuestionProblem final : public Problem {
 public:
  QuestionProblem(const Options& options, int threads);

  SampleSpec spec() const override;
  SampleTable training_samples() const override;
  SampleTable test_samples() const override;
  std::string source() const override { return data_.source; }
  std::string digest() const override { return data_.digest; }
  int64_t memory_bytes() const override;
  std::string describe() const override;
  std::string check() const override { return ""; }  // loading reads all
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
  // Writes predictions.json and, next to it, a file of n-best candidates.
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override;

  const QuestionSet& set(SetPart part) const {
    return part == SetPart::kTest ? data_.test : data_.train;
  }

 private:
  QuestionData data_;
  AnswerOptions answers_;
};

}  // namespace syncopate
