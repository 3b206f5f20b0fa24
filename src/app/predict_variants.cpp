#include "app/predict_variants.h"

#include <algorithm>

#include "base/text.h"
#include "comm/modelled_sums.h"
#include "train/update_cost.h"

namespace syncopate {
namespace {

constexpr double kMeasuredFor_s = 1;  // each scheme's computations
constexpr const char* kWholeTables = "--sync.tables=dense";

void sort_by_speed(std::vector<Prediction>& predictions) {
  std::ranges::stable_sort(predictions, [](const auto& a, const auto& b) {
    if (!a.obstacle.empty() || !b.obstacle.empty())
      return a.obstacle.empty() && !b.obstacle.empty();
    return a.samples_per_s() > b.samples_per_s();
  });
}

}  // namespace

bool Variant::has_whole_tables() const {
  return std::ranges::find(keys, kWholeTables) != keys.end();
}

std::string Variant::text() const {
  std::string text = "--sync.scheme=" + scheme;
  for (const std::string& key : keys) text += " " + key;
  return text;
}

std::string Prediction::limit() const {
  const auto steps = static_cast<double>(work.steps);
  const double waits_s = work.sync.wait_s / steps;
  const std::pair<double, const char*> parts[] = {
      {work.compute_s / steps, "forward and backward passes"},
      {update_s, "the scheme's own computations"},
      {waits_s, "waiting for slower workers"},
      {work.sync.exposed_s / steps - waits_s, "communication"}};
  const auto& [seconds, what] = *std::ranges::max_element(parts);
  return fmt::format("{:.0f}% {}", 100 * std::min(1.0, seconds / step_s()),
                     what);
}

Prediction Predictor::predict(const Variant& variant) {
  Prediction prediction;
  prediction.variant = variant;
  std::vector<std::string> own = {"--sync.scheme=" + variant.scheme};
  own.insert(own.end(), variant.keys.begin(), variant.keys.end());
  try {
    auto engine = build_variant(session_, base_, own, Memory::kNone);
    // With rows of tables, every worker sends every other one a message in each
    // step. Among more workers, following those takes too long.
    if (engine->workers > ModelledSums::kExactWorld && engine->sends_rows()) {
      prediction.variant.keys.push_back(kWholeTables);
      own.push_back(kWholeTables);
      engine = build_variant(session_, base_, own, Memory::kNone);
    }
    if (settings_.compute) engine->options.compute = *settings_.compute;
    if (settings_.network) engine->options.network = *settings_.network;
    check_simulation(*engine);
    if (!base_.input.given.contains("compute.update_s")) measure(prediction);
    if (prediction.has_measured_update)
      engine->options.compute.update_s = prediction.update_s;
    prediction.update_s = engine->options.compute.update_s;
    engine->plan.stop_at =
        std::min(engine->plan.total_steps, steps_of(*engine));
    prediction.workers = engine->workers;
    for (const SimulatedWork& mine : simulate(*engine))
      prediction.work.add(mine);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    prediction.obstacle = error.what();
  }
  return prediction;
}

// Fewer where rows make many messages: a prediction is to take seconds.
int64_t Predictor::steps_of(const Engine& engine) const {
  constexpr int64_t kMostMessages = 1 << 20;
  if (!settings_.may_be_fewer || !engine.sends_rows()) return settings_.steps;
  const int64_t pairs = int64_t{engine.workers} * engine.workers;
  return std::min(settings_.steps, kMostMessages / pairs);
}

// Collectives and buckets hardly change what is computed, so bsp is measured
// once per wire format.
void Predictor::measure(Prediction& prediction) {
  std::vector<std::string> own = {"--sync.scheme=" + prediction.variant.scheme};
  for (const std::string& key : prediction.variant.keys)
    if (!key.starts_with("--sync.collective") &&
        !key.starts_with("--sync.bucket_mb"))
      own.push_back(key);
  const auto [place, is_new] = measured_s_.try_emplace(join(own, " "));
  if (is_new) {
    const auto engine =
        build_variant(session_, base_, own, Memory::kCountedOnly);
    place->second = measure_update(session_, *engine, kMeasuredFor_s);
  }
  prediction.has_measured_update = place->second.has_value();
  prediction.update_s = place->second.value_or(0);
}

std::vector<Prediction> Predictor::predict_bsp() {
  std::vector<Prediction> all = {predict({"bsp", {}})};
  const auto with = [&](std::vector<std::string> keys, const std::string& key) {
    keys.push_back(key);
    all.push_back(predict({"bsp", keys}));
  };
  const auto fastest = [&] {
    sort_by_speed(all);
    return all.front().variant.keys;
  };
  if (!all.front().obstacle.empty()) return all;
  for (const std::string& name : all_names<CollectiveAlgorithm>())
    if (name != name_of(base_.options.sync.collective))
      with({}, "--sync.collective=" + name);
  const std::vector<std::string> keys = fastest();
  const double total_mb =
      4e-6 * static_cast<double>(base_.model->parameters().num_elems());
  for (double mb = 1;; mb *= 5) {
    with(keys, fmt::format("--sync.bucket_mb={}", mb));
    if (mb >= std::min(total_mb, 100.0)) break;
  }
  if (base_.options.sync.wire == Wire::kF32)
    with(fastest(), "--sync.wire=bf16");
  sort_by_speed(all);
  return all;
}

std::vector<Prediction> Predictor::predict_others() {
  const bool has_compressor = base_.input.given.contains("compress.kind");
  std::vector<Prediction> all;
  for (const SchemeInfo& info : scheme_table()) {
    if (info.keyword == "bsp" || info.is_composite) continue;
    if (!info.uses_compressor || has_compressor) {
      all.push_back(predict({info.keyword, {}}));
      continue;
    }
    for (const char* kind : {"sign", "top_k"})
      all.push_back(
          predict({info.keyword, {fmt::format("--compress.kind={}", kind)}}));
  }
  sort_by_speed(all);
  return all;
}

}  // namespace syncopate
