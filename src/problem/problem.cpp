#include "problem/problem.h"

#include <numeric>

#include "base/check.h"
#include "data/kinds.h"
#include "problem/image_problem.h"
#include "problem/problems.h"
#include "problem/setup.h"

namespace syncopate {

std::vector<int64_t> Problem::indices(const Setup& setup, SetPart part) const {
  if (part == SetPart::kTraining) return setup.split.train;
  if (part == SetPart::kValidation) return setup.split.validation;
  std::vector<int64_t> all(static_cast<size_t>(test_samples().samples));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

std::vector<std::vector<int64_t>> Problem::evaluation_batches(
    const Setup& setup,
    SetPart part) const {
  const std::vector<int64_t> all = indices(setup, part);
  const std::vector<int64_t> groups = part == SetPart::kTest
                                          ? test_samples().groups
                                          : training_samples().groups;
  const auto size = static_cast<size_t>(setup.options.eval.batch);
  std::vector<std::vector<int64_t>> batches;
  for (size_t begin = 0, group = 0; begin < all.size();) {
    size_t end = begin + 1;  // of the next group
    if (!groups.empty()) {
      while (groups[group + 1] <= all[begin]) ++group;
      while (end < all.size() && all[end] < groups[group + 1]) ++end;
    }
    CHECK_MSG(end - begin <= size, "a group of {} samples, eval.batch {}",
              end - begin, size);
    if (batches.empty() || batches.back().size() + end - begin > size)
      batches.emplace_back();
    batches.back().insert(batches.back().end(), all.begin() + begin,
                          all.begin() + end);
    begin = end;
  }
  return batches;
}

std::vector<float> Problem::outputs(const Setup& setup,
                                    const ReplicaView& model,
                                    SetPart part) const {
  std::vector<float> all;
  const auto source = make_batches(setup, part, setup.options.eval.batch);
  for (const auto& batch : evaluation_batches(setup, part))
    setup.model->predict(*setup.context, model, source->get(batch), all);
  return all;
}

std::unique_ptr<Problem> make_problem(const Options& options, int threads) {
  const DataKind* kind = find_data_kind(options.data.kind);
  CHECK_MSG(kind != nullptr, "data.kind: {}", options.data.kind);
  switch (kind->samples) {
    case Samples::kImages:
      return std::make_unique<ImageProblem>(options, threads);
    case Samples::kQuestions:
      return make_question_problem(options, threads);
    case Samples::kClicks:
      return make_click_problem(options);
  }
  return nullptr;
}

}  // namespace syncopate
