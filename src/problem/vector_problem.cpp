#include "problem/vector_problem.h"

#include <algorithm>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "models/classifier.h"
#include "problem/feed.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

SampleTable table_of(const VectorSet& set, int64_t classes) {
  SampleTable table;
  table.samples = set.samples();
  table.classes = classes;
  table.label_of = [&set](int64_t sample) {
    return set.labels[static_cast<size_t>(sample)];
  };
  return table;
}

struct HostVectors {
  const VectorSet& set;
  const VectorSpec& spec;
  VectorBatch batch = {};
  Batch fill(std::span<const int64_t> samples) {
    batch.fill(set, spec, samples);
    return batch.view(spec);
  }
};

class VectorScorer final : public Scorer {
 public:
  VectorScorer(const Setup& setup, std::unique_ptr<BatchSource> batches)
      : setup_(setup), batches_(std::move(batches)) {}

  void add(const ReplicaView& model,
           std::span<const int64_t> samples) override {
    const MetricSums part =
        setup_.model->evaluate(*setup_.context, model, batches_->get(samples))
            .get();
    sums_.resize(part.values.size() + 1);
    for (size_t i = 0; i < part.values.size(); ++i) sums_[i] += part.values[i];
    sums_.back() += part.samples;
  }

  std::vector<double> metrics(Endpoint* all) override {
    if (all)
      agree(*all, all->world_group(), sums_, Combine::kSum, tags::kEvaluation,
            Traffic::kEvaluation);
    std::vector<double> means;
    for (size_t i = 0; i + 1 < sums_.size(); ++i)
      means.push_back(sums_[i] / sums_.back());
    return means;
  }

 private:
  const Setup& setup_;
  std::unique_ptr<BatchSource> batches_;
  std::vector<double> sums_;  // of each metric, then the samples
};

}  // namespace

VectorProblem::VectorProblem(const Options& options)
    : data_(make_synthetic_vectors(options.data)) {}

SampleTable VectorProblem::training_samples() const {
  return table_of(data_.train, data_.spec.classes);
}

SampleTable VectorProblem::test_samples() const {
  return table_of(data_.test, data_.spec.classes);
}

int64_t VectorProblem::memory_bytes() const {
  return 4 * (data_.spec.width + 1) *
         (data_.train.samples() + data_.test.samples());
}

std::string VectorProblem::describe() const {
  return fmt::format("{} values, {} classes", data_.spec.width,
                     data_.spec.classes);
}

std::unique_ptr<BatchSource> VectorProblem::make_batches(
    const Setup& setup,
    SetPart part,
    int64_t max_samples) const {
  Batch largest;
  largest.labels = make_const_tensor(nullptr, DType::kI32, Shape{max_samples});
  largest.vectors = make_const_tensor(nullptr, DType::kF32,
                                      Shape{max_samples, data_.spec.width});
  return std::make_unique<HostBatches<HostVectors>>(
      *setup.context, HostVectors{set(part), data_.spec}, packed_bytes(largest),
      part == SetPart::kTraining ? setup.options.data.accumulate : 1);
}

std::vector<MetricInfo> VectorProblem::metrics() const {
  return classification_metrics(data_.spec.classes);
}

std::unique_ptr<Scorer> VectorProblem::make_scorer(const Setup& setup,
                                                   SetPart part) const {
  return std::make_unique<VectorScorer>(
      setup, make_batches(setup, part, setup.options.eval.batch));
}

void VectorProblem::check_output(const fs::path& output) const {
  if (output.extension() != ".csv")
    fail(ExitCode::kUsage, "--output={}: a name ending in .csv",
         output.string());
}

std::string VectorProblem::predict(const Setup& setup,
                                   const ReplicaView& model,
                                   const fs::path& output) const {
  const SetPart part = setup.options.eval.on;
  const auto batches = make_batches(setup, part, setup.options.eval.batch);
  const auto classes = data_.spec.classes;
  std::string text = "sample,label,prediction\n";
  int64_t samples = 0;
  for (const auto& batch : evaluation_batches(setup, part)) {
    std::vector<float> scores;
    setup.model->predict(*setup.context, model, batches->get(batch), scores);
    for (size_t n = 0; n < batch.size(); ++n, ++samples) {
      const auto row = scores.begin() + static_cast<int64_t>(n) * classes;
      text += fmt::format("{},{},{}\n", batch[n],
                          set(part).labels[static_cast<size_t>(batch[n])],
                          std::max_element(row, row + classes) - row);
    }
  }
  write_file_atomically(output, text);
  return fmt::format("{} samples of the {} set", samples, part);
}

}  // namespace syncopate
