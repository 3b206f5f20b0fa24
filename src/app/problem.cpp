#include "app/problem.h"

#include <algorithm>

#include "app/click_problem.h"
#include "app/engine.h"
#include "app/feed.h"
#include "app/image_problem.h"
#include "app/question_problem.h"

namespace syncopate {

std::unique_ptr<Feed> Problem::make_feed(const Engine& engine,
                                         int rank,
                                         int64_t first_batch) const {
  return std::make_unique<SourceFeed>(
      make_batches(engine, SetPart::kTraining,
                   engine.options.data.batch_of(rank)),
      *engine.sampler, rank, first_batch);
}

SetPart evaluated_part(const Options& options) {
  return options.eval.on == "validation" ? SetPart::kValidation
                                         : SetPart::kTest;
}

std::unique_ptr<Problem> make_problem(const Options& options, int threads) {
  const auto is_of = [&](const std::vector<std::string>& kinds) {
    return std::count(kinds.begin(), kinds.end(), options.data.kind) > 0;
  };
  if (is_of(question_kinds()))
    return std::make_unique<QuestionProblem>(options, threads);
  if (is_of(click_kinds())) return std::make_unique<ClickProblem>(options);
  return std::make_unique<ImageProblem>(options, threads);
}

}  // namespace syncopate
