#include "app/evaluator.h"

#include <algorithm>

#include "base/rng.h"
#include "comm/collectives.h"
#include "comm/tags.h"

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
