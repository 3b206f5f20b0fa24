#include "train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/rng.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "ops/combine.h"
#include "ops/reduce.h"
#include "sync/over_workers.h"
#include "train/audit.h"
#include "watch/activity.h"

namespace syncopate {

std::unique_ptr<Scorer> evaluate_batches(const Engine& engine,
                                         SetPart part,
                                         const ReplicaView& model,
                                         int64_t first,
                                         int64_t stride,
                                         const BatchDone& batch_done) {
  std::unique_ptr<Scorer> scorer = engine.problem->make_scorer(engine, part);
  const auto batches = engine.problem->evaluation_batches(engine, part);
  for (int64_t i = first; i < std::ssize(batches); i += stride) {
    scorer->add(model, batches[static_cast<size_t>(i)]);
    activity().progress();
    if (batch_done) batch_done(i + 1, std::ssize(batches));
  }
  return scorer;
}

EvaluatedModel::EvaluatedModel(const Engine& engine)
    : parameters(*engine.device,
                 *engine.stream,
                 engine.model->parameters().num_elems()),
      buffers(*engine.device,
              *engine.stream,
              engine.model->buffers().num_elems()) {}

// Takes the exact average over eval.recompute_batches batches of the training
// set, without augmentation. Starts from zeros, because what is not finite
// would stay in the average.
void EvaluatedModel::prepare(const Engine& engine) {
  if (engine.options.eval.batchnorm == EvalStatistics::kRunning ||
      buffers.empty())
    return;
  buffers.assign(std::vector<float>(buffers.size()));
  const int64_t size = engine.options.data.batch;
  const int64_t count = std::min(engine.options.eval.recompute_batches,
                                 std::ssize(engine.split.train) / size);
  // A fixed random order: a file may be sorted by label.
  const std::vector<int64_t> places = permutation(
      std::ssize(engine.split.train),
      Rng(static_cast<uint64_t>(engine.options.run.seed), Purpose::kDataOrder,
          UINT64_MAX));  // no epoch has this number
  std::vector<int64_t> order;
  for (const int64_t place : places) order.push_back(engine.split.train[place]);
  const auto batches =
      engine.problem->make_batches(engine, SetPart::kTraining, size);
  for (int64_t i = 0; i < count; ++i) {
    engine.model->recompute_statistics(
        *engine.context, view(),
        batches->get(std::span(order).subspan(i * size, size)), i);
    activity().progress();
  }
}

namespace {

EvaluatedModel fetch(const Engine& engine, Scheme& scheme, EvalModel which) {
  EvaluatedModel model(engine);
  scheme.evaluation_model(which, model.parameters, model.buffers);
  return model;
}

// The mean of averages is the average of means.
EvaluatedModel mean_of_averages(const Engine& engine,
                                Endpoint& endpoint,
                                const MovingAverage& average) {
  EvaluatedModel model(engine);
  combine(*engine.context, model.parameters, {{1, average.parameters()}});
  combine(*engine.context, model.buffers, {{1, average.buffers()}});
  mean_over_workers(*engine.context, endpoint, model.parameters);
  mean_over_workers(*engine.context, endpoint, model.buffers);
  return model;
}

// All workers have the same model, so they divide the batches among themselves.
std::vector<double> evaluate_shared(const Engine& engine,
                                    SetPart part,
                                    Endpoint& endpoint,
                                    EvaluatedModel& model,
                                    const BatchDone& batch_done) {
  model.prepare(engine);
  return evaluate_batches(engine, part, model.view(), endpoint.rank(),
                          endpoint.size(), batch_done)
      ->metrics(&endpoint);
}

void evaluate_each(const Engine& engine,
                   SetPart part,
                   Endpoint& endpoint,
                   EvaluatedModel& own,
                   const BatchDone& batch_done,
                   Evaluation& result) {
  own.prepare(engine);
  std::vector<double> metrics =
      evaluate_batches(engine, part, own.view(), 0, 1, batch_done)
          ->metrics(nullptr);
  const std::span<const double> mine = metrics;
  const Group world = endpoint.world_group();
  for (const std::vector<std::byte>& bytes :
       gather_bytes(endpoint, world, bytes_view(mine), 0, tags::kEvaluation,
                    Traffic::kEvaluation)) {
    CHECK(bytes.size() == mine.size_bytes());
    std::memcpy(result.by_worker.emplace_back(metrics.size()).data(),
                bytes.data(), bytes.size());
  }
  if (endpoint.rank() == 0) metrics = mean_of(result.by_worker);
  broadcast(endpoint, world, bytes_span(std::span(metrics)), 0,
            tags::kEvaluation, Traffic::kEvaluation);
  result.metrics = std::move(metrics);
}

// Replaces `own` with its difference from the mean.
double consensus_distance(const Engine& engine,
                          Endpoint& endpoint,
                          EvaluatedModel& own,
                          const EvaluatedModel& mean) {
  combine(*engine.context, own.parameters,
          {{1, own.parameters}, {-1, mean.parameters}});
  double squares = dot(*engine.context, own.parameters, own.parameters);
  agree(endpoint, endpoint.world_group(), std::span(&squares, 1), Combine::kSum,
        tags::kEvaluation, Traffic::kEvaluation);
  return std::sqrt(squares / endpoint.size());
}

}  // namespace

Evaluation evaluate_scheme(const Engine& engine,
                           SetPart part,
                           Endpoint& endpoint,
                           Scheme& scheme,
                           const MovingAverage* average,
                           const BatchDone& batch_done) {
  using enum EvalChoice;
  const EvalChoice which = engine.options.eval.model;
  const bool wants_each = includes_each(which);
  const bool wants_distance = !keeps_replicas_equal(engine.options.sync);
  Evaluation result;
  if (wants_each) {
    EvaluatedModel own = fetch(engine, scheme, EvalModel::kEach);
    evaluate_each(engine, part, endpoint, own, batch_done, result);
  }
  if (which == kRank0 || which == kCentre) {
    EvaluatedModel one =
        fetch(engine, scheme,
              which == kRank0 ? EvalModel::kRank0 : EvalModel::kCentre);
    result.metrics = evaluate_shared(engine, part, endpoint, one, batch_done);
  }
  if (which == kEma) {
    EvaluatedModel one = mean_of_averages(engine, endpoint, *average);
    result.metrics = evaluate_shared(engine, part, endpoint, one, batch_done);
  }
  const bool wants_mean = which != kEach && which != kRank0 && which != kEma;
  if (!wants_mean && !wants_distance) return result;
  EvaluatedModel mean = fetch(engine, scheme, EvalModel::kAverage);
  if (wants_distance) {
    EvaluatedModel own = fetch(engine, scheme, EvalModel::kEach);
    result.consensus_distance = consensus_distance(engine, endpoint, own, mean);
  }
  if (which == kAverage)
    result.metrics = evaluate_shared(engine, part, endpoint, mean, batch_done);
  if (which == kEachAndAverage)
    result.average = evaluate_shared(engine, part, endpoint, mean, batch_done);
  return result;
}

std::vector<double> mean_of(const std::vector<std::vector<double>>& metrics) {
  std::vector<double> mean(metrics[0].size(), 0.0);
  for (const std::vector<double>& one : metrics)
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += one[i] / static_cast<double>(metrics.size());
  return mean;
}

}  // namespace syncopate
