#include "app/evaluator.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "ops/combine.h"
#include "ops/reduce.h"

namespace syncopate {
namespace {

std::span<const int64_t> batch_of(const std::vector<int64_t>& indices,
                                  int64_t size,
                                  int64_t index) {
  const int64_t begin = index * size;
  const int64_t count = std::min(size, std::ssize(indices) - begin);
  return std::span(indices).subspan(begin, count);
}

int64_t num_batches(const std::vector<int64_t>& indices, int64_t size) {
  return (std::ssize(indices) + size - 1) / size;
}

}  // namespace

MetricSums evaluate_batches(const Engine& engine,
                            const ReplicaView& model,
                            int64_t first,
                            int64_t stride) {
  const ImageSet& set = engine.evaluation_set();
  const std::vector<int64_t> indices = engine.evaluation_indices();
  const int64_t size = engine.options.eval.batch;
  // A GPU works while the next batch is made: it is waited for at the end.
  std::vector<PendingSums> pending;
  HostBatch batch;
  BatchUpload upload(*engine.context, set.spec, size);
  for (int64_t i = first; i < num_batches(indices, size); i += stride) {
    fill_evaluation_batch(batch, set, engine.normalization,
                          batch_of(indices, size, i));
    pending.push_back(engine.model->evaluate(*engine.context, model,
                                             upload.put(batch.view(set.spec))));
  }
  MetricSums sums{std::vector<double>(engine.model->metrics().size(), 0.0), 0};
  for (const PendingSums& part : pending) sums.add(part.get());
  return sums;
}

void recompute_statistics(const Engine& engine, const ReplicaView& model) {
  const ImageSet& set = engine.dataset.train;
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
  HostBatch batch;
  BatchUpload upload(*engine.context, set.spec, size);
  for (int64_t i = 0; i < count; ++i) {
    fill_evaluation_batch(batch, set, engine.normalization,
                          batch_of(order, size, i));
    engine.model->recompute_statistics(*engine.context, model,
                                       upload.put(batch.view(set.spec)), i);
  }
}

namespace {

// A model of the scheme, made ready to be evaluated.
struct EvaluatedModel {
  DeviceVector<float> parameters, buffers;
  ReplicaView view() { return {parameters, {}, buffers}; }
};

EvaluatedModel fetch(const Engine& engine, Scheme& scheme, EvalModel which) {
  Device& device = *engine.device;
  Stream& stream = *engine.stream;
  EvaluatedModel model{{device, stream, engine.model->parameters().num_elems()},
                       {device, stream, engine.model->buffers().num_elems()}};
  scheme.evaluation_model(which, model.parameters, model.buffers);
  return model;
}

void prepare(const Engine& engine, EvaluatedModel& model) {
  if (engine.options.eval.batchnorm == "recomputed" && !model.buffers.empty())
    recompute_statistics(engine, model.view());
}

// Workers share the batches out: all have the same model.
MetricSums evaluate_shared(const Engine& engine,
                           Endpoint& endpoint,
                           EvaluatedModel& model) {
  prepare(engine, model);
  return sum_over_workers(
      endpoint,
      evaluate_batches(engine, model.view(), endpoint.rank(), endpoint.size()));
}

void evaluate_each(const Engine& engine,
                   Endpoint& endpoint,
                   EvaluatedModel& own,
                   Evaluation& result) {
  prepare(engine, own);
  const MetricSums mine = evaluate_batches(engine, own.view(), 0, 1);
  std::vector<double> values = mine.values;
  values.push_back(mine.samples);
  result.metrics = {std::vector<double>(mine.values.size(), 0.0), 0};
  for (std::vector<double>& worker :
       all_gather(endpoint, endpoint.world_group(), values, tags::kEvaluation,
                  Traffic::kEvaluation)) {
    const double samples = worker.back();
    worker.pop_back();
    result.by_worker.push_back({worker, samples});
    result.metrics.add(result.by_worker.back());
  }
}

// `own` becomes its difference from the mean.
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

bool keeps_replicas_equal(const SyncOptions& sync) {
  const std::vector<std::string> schemes = schemes_in_use(sync);
  return std::all_of(schemes.begin(), schemes.end(), [](const auto& keyword) {
    return keyword == "sync_switch" ||
           scheme_info(keyword).keeps_replicas_equal;
  });
}

}  // namespace

Evaluation evaluate_scheme(const Engine& engine,
                           Endpoint& endpoint,
                           Scheme& scheme) {
  const std::string& which = engine.options.eval.model;
  const bool wants_each = which == "each" || which == "each_and_average";
  const bool wants_distance = !keeps_replicas_equal(engine.options.sync);
  Evaluation result;
  if (wants_each) {
    EvaluatedModel own = fetch(engine, scheme, EvalModel::kEach);
    evaluate_each(engine, endpoint, own, result);
  }
  if (which == "rank0") {
    EvaluatedModel first = fetch(engine, scheme, EvalModel::kRank0);
    result.metrics = evaluate_shared(engine, endpoint, first);
  }
  if ((which == "each" || which == "rank0") && !wants_distance) return result;
  EvaluatedModel mean = fetch(engine, scheme, EvalModel::kAverage);
  if (wants_distance) {
    EvaluatedModel own = fetch(engine, scheme, EvalModel::kEach);
    result.consensus_distance = consensus_distance(engine, endpoint, own, mean);
  }
  if (which == "average")
    result.metrics = evaluate_shared(engine, endpoint, mean);
  if (which == "each_and_average")
    result.average = evaluate_shared(engine, endpoint, mean);
  return result;
}

std::vector<float> predict_all(const Engine& engine, const ReplicaView& model) {
  const ImageSet& set = engine.evaluation_set();
  const std::vector<int64_t> indices = engine.evaluation_indices();
  const int64_t size = engine.options.eval.batch;
  std::vector<float> scores;
  HostBatch batch;
  BatchUpload upload(*engine.context, set.spec, size);
  for (int64_t i = 0; i < num_batches(indices, size); ++i) {
    fill_evaluation_batch(batch, set, engine.normalization,
                          batch_of(indices, size, i));
    engine.model->predict(*engine.context, model,
                          upload.put(batch.view(set.spec)), scores);
  }
  return scores;
}

MetricSums sum_over_workers(Endpoint& endpoint, const MetricSums& mine) {
  std::vector<double> values = mine.values;
  values.push_back(mine.samples);
  agree(endpoint, endpoint.world_group(), values, Combine::kSum,
        tags::kEvaluation, Traffic::kEvaluation);
  const double samples = values.back();
  values.pop_back();
  return {values, samples};
}

}  // namespace syncopate
