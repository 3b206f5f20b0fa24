// The contract of every problem, checked with the inputs of the smoke runs for
// images, questions and clicks.
#include "problem/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/sampler.h"
#include "models/registry.h"
#include "problem/setup.h"
#include "support/source_dir.h"

namespace syncopate {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kWorkers = 2;

// All that a batch holds, as one string of bytes.
Bytes contents(Batch batch) {
  Bytes bytes;
  for (const ConstTensor* tensor : batch.tensors()) {
    if (tensor->data == nullptr) continue;
    const auto* begin = static_cast<const std::byte*>(tensor->data);
    bytes.insert(bytes.end(), begin, begin + tensor->bytes());
  }
  return bytes;
}

class ProblemTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const ParsedInput input =
        parse_input((source_dir() / "inputs" / GetParam()).string(),
                    {"--data.validation=40", "--eval.batch=24"});
    refuse_errors(input);
    setup_.options = input.options;
    setup_.device = make_cpu_device();
    setup_.stream = setup_.device->make_stream();
    setup_.context = std::make_unique<Context>(*setup_.device, *setup_.stream,
                                               1, Determinism::kRequired);
    problem_ = make_problem(setup_.options, 1);
    const SampleTable training = problem_->training_samples();
    setup_.split = split_validation(setup_.options.data, training, 1);
    setup_.sampler = std::make_unique<Sampler>(setup_.options.data, training,
                                               setup_.split.train, kWorkers, 1);
    setup_.model =
        make_model(setup_.options.model, problem_->spec(), DType::kF32);
    setup_.model->plan(*setup_.context, setup_.options.data.batch, 24);
    problem_->prepare(setup_, 1);
  }

  syncopate::Setup setup_;
  std::unique_ptr<Problem> problem_;
};

// A resumed run opens its feed in the middle.
TEST_P(ProblemTest, AFeedOpenedLaterDeliversTheSameBatches) {
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto feed = problem_->make_feed(setup_, rank, 0);
    std::vector<Bytes> batches;
    for (int i = 0; i < 6; ++i) {
      const Batch batch = feed->next();
      EXPECT_EQ(batch.samples, setup_.options.data.batch);
      batches.push_back(contents(batch));
      EXPECT_FALSE(batches.back().empty());
    }
    EXPECT_NE(batches[0], batches[1]);
    const auto later = problem_->make_feed(setup_, rank, 4);
    EXPECT_EQ(contents(later->next()), batches[4]);
    EXPECT_EQ(contents(later->next()), batches[5]);
  }
}

TEST_P(ProblemTest, BatchesMadeAheadAreTheSame) {
  setup_.options.data.prefetch = 0;
  const auto plain = problem_->make_feed(setup_, 1, 0);
  setup_.options.data.prefetch = 3;
  const auto ahead = problem_->make_feed(setup_, 1, 0);
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(contents(ahead->next()), contents(plain->next())) << i;
}

TEST_P(ProblemTest, BatchesDoNotDependOnTheThreadsOfTheFeed) {
  setup_.options.data.batch = 700;
  setup_.options.data.validation = 0;
  setup_.options.data.samples = 2000;
  const auto problem = make_problem(setup_.options, 1);
  const SampleTable training = problem->training_samples();
  setup_.split = split_validation(setup_.options.data, training, 1);
  setup_.sampler = std::make_unique<Sampler>(setup_.options.data, training,
                                             setup_.split.train, 1, 1);
  std::vector<Bytes> first;
  for (const int threads : {1, 2, 3}) {
    setup_.feed_threads = threads;
    problem->prepare(setup_, 1);
    const auto feed = problem->make_feed(setup_, 0, 0);
    std::vector<Bytes> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(contents(feed->next()));
    if (threads == 1) first = batches;
    ASSERT_EQ(batches, first) << threads;
  }
}

TEST_P(ProblemTest, PartsDivideTheSamples) {
  const auto training = problem_->indices(setup_, SetPart::kTraining);
  const auto held_out = problem_->indices(setup_, SetPart::kValidation);
  const auto test = problem_->indices(setup_, SetPart::kTest);
  EXPECT_GE(std::ssize(held_out), 40);
  std::vector<int64_t> both = training;
  both.insert(both.end(), held_out.begin(), held_out.end());
  std::ranges::sort(both);
  std::vector<int64_t> all(problem_->training_samples().samples);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(both, all);
  EXPECT_EQ(std::ssize(test), problem_->test_samples().samples);
}

TEST_P(ProblemTest, AnEvaluationSeesEachSampleOnceAndDividesNoGroup) {
  for (const SetPart part : {SetPart::kValidation, SetPart::kTest}) {
    const SampleTable table = part == SetPart::kTest
                                  ? problem_->test_samples()
                                  : problem_->training_samples();
    const auto group_of = [&](int64_t sample) {
      return std::ranges::upper_bound(table.groups, sample) -
             table.groups.begin();
    };
    std::vector<int64_t> seen;
    for (const auto& batch : problem_->evaluation_batches(setup_, part)) {
      EXPECT_LE(std::ssize(batch), 24);
      if (!seen.empty() && !table.groups.empty()) {
        EXPECT_NE(group_of(seen.back()), group_of(batch.front()));
      }
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(seen, problem_->indices(setup_, part));
  }
}

// Metrics of a whole set do not depend on how it was cut into batches, nor
// does the source deliver other samples.
TEST_P(ProblemTest, MetricsDoNotDependOnTheSizeOfBatches) {
  std::vector<float> parameters(setup_.model->parameters().num_elems());
  std::vector<float> buffers(setup_.model->buffers().num_elems());
  setup_.model->initialise(parameters, buffers, 1);
  std::vector<float> gradients(parameters.size());
  const ReplicaView view{parameters, gradients, buffers};
  std::vector<std::vector<double>> metrics;
  for (const int64_t batch : {24, 13}) {
    setup_.options.eval.batch = batch;
    const auto scorer = problem_->make_scorer(setup_, SetPart::kTest);
    for (const auto& samples :
         problem_->evaluation_batches(setup_, SetPart::kTest))
      scorer->add(view, samples);
    metrics.push_back(scorer->metrics(nullptr));
  }
  ASSERT_EQ(metrics[0].size(), problem_->metrics().size());
  for (size_t i = 0; i < metrics[0].size(); ++i)
    EXPECT_NEAR(metrics[0][i], metrics[1][i],
                1e-5 * (1 + std::abs(metrics[0][i])))
        << problem_->metrics()[i].name;
}

TEST_P(ProblemTest, DigestTellsDataApart) {
  const std::string digest = problem_->digest();
  EXPECT_EQ(make_problem(setup_.options, 2)->digest(), digest);
  setup_.options.data.samples += 1;
  EXPECT_NE(make_problem(setup_.options, 1)->digest(), digest);
}

INSTANTIATE_TEST_SUITE_P(Inputs,
                         ProblemTest,
                         testing::Values("smoke.ini",
                                         "bert_smoke.ini",
                                         "deepfm_smoke.ini"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace syncopate
