#include "app/predict_variants.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "comm/modelled_sums.h"

namespace syncopate {
namespace {

constexpr double kMeasuredFor_s = 1;  // each scheme's computations
constexpr int64_t kAboutAsMany = 40;  // variants, for the progress line
constexpr double kFaster = 1.02;      // the least gain that justifies a key
constexpr const char* kWholeTables = "--sync.tables=dense";
constexpr const char* kAverage = "--eval.model=average";

// What schemes may need in order to run, unless the input has the key: epochs
// of stand-in data may be too short for all phases, and an optimizer's state
// may be no momentum.
struct Relief {
  const char *scheme, *key, *value;
};
constexpr Relief kReliefs[] = {{"ds_sync", "ds_sync.restart", "never"},
                               {"dgc", "dgc.mask_momentum", "no"}};

void sort_by_speed(std::vector<Prediction>& predictions) {
  const auto place = [](const Prediction& one) {
    const int group = one.can_be_advised() ? 0 : one.obstacle.empty() ? 1 : 2;
    return std::pair(group, group < 2 ? -one.samples_per_s : 0);
  };
  std::ranges::stable_sort(predictions, {}, place);
}

bool is_about(const Prediction& prediction, const std::string& key) {
  return prediction.obstacle.find(key + ":") != std::string::npos;
}

// A prediction is of few steps: none of those that a run only begins with.
void leave_out_beginning(SyncOptions& sync) {
  sync.local_sgd.start = {};
  sync.dgc.warmup_ratios.clear();
}

// Whether workers may take different numbers of steps.
bool takes_own_steps(const SyncOptions& sync) {
  return any_scheme(
      sync, [](const SchemeInfo& info) { return info.is_free_running; });
}

// Whether the messages of a step grow with the square of the workers: to all of
// them, or to servers of which there are about as many.
bool sends_to_all(const SyncOptions& sync, int64_t workers) {
  const SchemeInfo& info = scheme_info(sync.scheme);
  const bool has_few_servers = info.is_free_running && sync.asp.servers > 0 &&
                               sync.asp.servers * 4 < workers;
  return info.sends_to_all && !has_few_servers;
}

// How many steps workers take on average while the slowest one takes one.
double steps_per_slow_step(const Engine& engine) {
  const Options& options = engine.options;
  double slowest = 0, speed = 0;
  for (int rank = 0; rank < engine.workers; ++rank) {
    const double took = of_worker(options.stragglers.factor, rank, 1) /
                        of_worker(options.compute.speed, rank, 1);
    slowest = std::max(slowest, took);
    speed += 1 / took;
  }
  return slowest * speed / engine.workers;
}

}  // namespace

bool Variant::has_whole_tables() const {
  return std::ranges::find(keys, kWholeTables) != keys.end();
}

std::vector<std::string> Variant::overrides() const {
  std::vector<std::string> all = {"--sync.scheme=" + scheme};
  all.insert(all.end(), keys.begin(), keys.end());
  return all;
}

std::string Variant::text() const {
  return join(overrides(), " ");
}

Variant without_centre(Variant variant, const Engine& base) {
  if (base.options.eval.model == EvalChoice::kCentre &&
      !scheme_info(variant.scheme).has_centre &&
      std::ranges::find(variant.keys, kAverage) == variant.keys.end())
    variant.keys.push_back(kAverage);
  return variant;
}

std::string Prediction::limit() const {
  if (update_from == UpdateFrom::kUnknown)
    return "its own computations not measured";
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

double Prediction::exposed_share() const {
  return std::min(
      1.0, work.sync.exposed_s / static_cast<double>(work.steps) / step_s());
}

Prediction Predictor::predict(const Variant& variant) {
  session_.log().progress(++predicted_, kAboutAsMany, variant.text());
  Prediction prediction;
  prediction.variant = without_centre(variant, base_);
  const auto build = [&] {
    return build_variant(session_, base_, prediction.variant.overrides(),
                         EngineUse::kSimulate);
  };
  try {
    auto engine = build();
    // With rows of tables, every worker sends every other one a message in each
    // step. Among more workers, following those takes too long.
    if (engine->workers > ModelledSums::kExactWorld && engine->sends_rows()) {
      prediction.variant.keys.push_back(kWholeTables);
      engine = build();
    }
    prediction.unused = engine->input.unused;
    if (settings_.compute) engine->options.compute = *settings_.compute;
    if (settings_.network) engine->options.network = *settings_.network;
    leave_out_beginning(engine->options.sync);
    check_simulation(*engine);
    // A measured cluster replaces all of the input's [compute].
    if (settings_.compute || !base_.input.given.contains("compute.update_s"))
      measure(prediction);
    if (prediction.update_from != UpdateFrom::kInput)
      engine->options.compute.update_s = prediction.update_s;
    prediction.update_s = engine->options.compute.update_s;
    engine->plan.stop_at = engine->plan.total_steps = steps_of(*engine);
    prediction.workers = engine->workers;
    const bool is_at_own_speed = takes_own_steps(engine->options.sync);
    for (const SimulatedWork& mine : simulate(*engine, Fidelity::kRate)) {
      prediction.work.add(mine);
      // Each worker's last step ends at a different time.
      if (is_at_own_speed)
        prediction.samples_per_s += mine.samples / mine.ended_at;
    }
    if (!is_at_own_speed)
      prediction.samples_per_s =
          prediction.work.samples / prediction.work.ended_at;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    prediction.obstacle = error.what();
  }
  return prediction;
}

// Returns whole rounds for schemes that communicate every H steps, enough steps
// for the slowest worker to take 20 where workers go at their own speed, and
// fewer where every worker sends every other one a message, so that a
// prediction takes seconds.
int64_t Predictor::steps_of(const Engine& engine) const {
  constexpr int64_t kMostMessages = 1 << 20, kMostMessagesOfAStep = 1 << 24;
  constexpr double kMostWorkerSteps = 4e6, kLeastOfSlowest = 20;
  const SyncOptions& sync = engine.options.sync;
  const int64_t N = engine.workers;
  int64_t steps = settings_.steps;
  if (takes_own_steps(sync) && settings_.is_adjustable)
    steps = std::max(steps, static_cast<int64_t>(std::min(
                                kLeastOfSlowest * steps_per_slow_step(engine),
                                kMostWorkerSteps / static_cast<double>(N))));
  int64_t messages = 0;  // per step of all workers, about
  if (engine.sends_rows() || sends_to_all(sync, N)) messages = N * N;
  if (follows_rings(engine)) messages = 2 * N * N;
  if (settings_.is_adjustable && messages > 0)
    steps = std::clamp<int64_t>(kMostMessages / messages, 1, steps);
  if (messages > kMostMessagesOfAStep)
    fail(ExitCode::kBadInput,
         "a step of {:.2g} messages is too long for this table: simulate says "
         "what it takes",
         static_cast<double>(messages));
  const int64_t round = steps_of_round(sync);
  if (static_cast<double>(round * N) > kMostWorkerSteps)
    fail(ExitCode::kBadInput,
         "a round of {} steps is too long for this table: simulate says what "
         "it takes",
         round);
  return (steps + round - 1) / round * round;
}

// Collectives, buckets and the transport hardly change what is computed, so bsp
// is measured once per wire format.
void Predictor::measure(Prediction& prediction) {
  std::vector<std::string> own = {"--sync.scheme=" + prediction.variant.scheme};
  for (const std::string& key : prediction.variant.keys)
    if (!key.starts_with("--sync.collective") &&
        !key.starts_with("--sync.bucket_mb") &&
        !key.starts_with("--sync.transport"))
      own.push_back(key);
  const auto [place, is_new] = measured_.try_emplace(join(own, " "));
  if (is_new) {
    const auto engine =
        build_variant(session_, base_, own, EngineUse::kMeasureUpdate);
    leave_out_beginning(engine->options.sync);
    place->second = measure_update(session_, *engine, kMeasuredFor_s);
  }
  const std::optional<UpdateCost>& found = place->second;
  prediction.update_from = !found                   ? UpdateFrom::kUnknown
                           : found->is_extrapolated ? UpdateFrom::kExtrapolated
                                                    : UpdateFrom::kMeasured;
  prediction.update_s = found ? found->seconds : 0;
}

// The native collective sends fp32 only.
bool Predictor::can_bf16(const Variant& variant) const {
  const std::string native = "--sync.collective=native";
  for (const std::string& key : variant.keys)
    if (key.starts_with("--sync.collective=")) return key != native;
  return base_.options.sync.collective != CollectiveAlgorithm::kNative;
}

const NetworkOptions& Predictor::network() const {
  return settings_.network ? *settings_.network : base_.options.network;
}

std::vector<std::string> Predictor::without_copies(
    const SchemeInfo& info) const {
  const bool has_copies = network().device_mbit_s > 0 &&
                          base_.options.sync.transport != Transport::kNccl;
  if (!has_copies || !info.uses_collectives) return {};
  return {"--sync.transport=nccl"};
}

// Among many workers, following these message by message takes minutes and
// shows nothing: one is never the fastest, the other has the time of the ring.
std::string Predictor::why_left_out(const std::string& collective) const {
  if (base_.workers <= ModelledSums::kExactWorld) return "";
  const auto is = [&](CollectiveAlgorithm algorithm) {
    return collective == name_of(algorithm);
  };
  if (is(CollectiveAlgorithm::kParameterServer))
    return fmt::format(
        "the server's link would carry {} gradients each way in every step",
        network().servers == ServerPlace::kApart ? base_.workers
                                                 : base_.workers - 1);
  if (is(CollectiveAlgorithm::kNative))
    return "a prediction takes it to be as fast as the ring";
  return "";
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
  for (const std::string& name : all_names<CollectiveAlgorithm>()) {
    if (name == name_of(base_.options.sync.collective)) continue;
    const std::string key = "--sync.collective=" + name;
    const std::string reason = why_left_out(name);
    if (reason.empty()) {
      with({}, key);
      continue;
    }
    Prediction left_out;
    left_out.variant = {"bsp", {key}};
    left_out.obstacle = reason;
    all.push_back(std::move(left_out));
  }
  for (const std::string& key : without_copies(scheme_info("bsp")))
    with({}, key);
  const std::vector<std::string> keys = fastest();
  const double total_mb =
      4e-6 * static_cast<double>(base_.model->parameters().num_elems());
  for (double mb = 1;; mb *= 5) {
    with(keys, fmt::format("--sync.bucket_mb={}", mb));
    if (mb >= std::min(total_mb, 100.0)) break;
  }
  if (base_.options.sync.wire == Wire::kF32) {
    sort_by_speed(all);
    const auto found =
        std::ranges::find_if(all, [&](const Prediction& prediction) {
          return prediction.obstacle.empty() && can_bf16(prediction.variant);
        });
    if (found != all.end()) with(found->variant.keys, "--sync.wire=bf16");
  }
  sort_by_speed(all);
  return all;
}

std::vector<std::string> Predictor::keys_for(const SchemeInfo& info,
                                             const Variant& of_bsp) {
  std::vector<std::string> keys;
  for (const std::string& key : of_bsp.keys) {
    const bool is_wire = key.starts_with("--sync.wire=");
    const bool is_of_sums = key.starts_with("--sync.collective=") ||
                            key.starts_with("--sync.bucket_mb=");
    if ((is_wire && info.uses_wire) || (is_of_sums && info.reduces_ranges))
      keys.push_back(key);
  }
  return keys;
}

std::optional<Prediction> Predictor::predict_tuned(const Prediction& as_given,
                                                   const Variant& of_bsp) {
  const std::vector<std::string> more =
      keys_for(scheme_info(as_given.variant.scheme), of_bsp);
  if (more.empty() || !as_given.obstacle.empty() ||
      base_.workers > ModelledSums::kExactWorld)
    return std::nullopt;
  Variant tuned = as_given.variant;
  tuned.keys.insert(tuned.keys.end(), more.begin(), more.end());
  Prediction prediction = predict(tuned);
  const bool is_faster =
      prediction.obstacle.empty() &&
      prediction.samples_per_s > kFaster * as_given.samples_per_s;
  return is_faster ? std::optional(std::move(prediction)) : std::nullopt;
}

Prediction Predictor::predict_able(const SchemeInfo& info,
                                   const std::vector<std::string>& keys) {
  const auto with = [&](std::vector<std::string> own) {
    for (const std::string& key : without_copies(info)) own.push_back(key);
    return predict({info.keyword, own});
  };
  Prediction as_given = with(keys);
  for (const Relief& relief : kReliefs) {
    if (info.keyword != relief.scheme || !is_about(as_given, relief.key) ||
        base_.input.given.contains(relief.key))
      continue;
    std::vector<std::string> relieved = keys;
    relieved.push_back(fmt::format("--{}={}", relief.key, relief.value));
    Prediction other = with(relieved);
    if (other.obstacle.empty()) return other;
  }
  return as_given;
}

// Predicts a scheme with two values of compress.kind, which the input does not
// give. If the scheme accepts one of them, the other is not mentioned. If it
// cannot run with either, what is said is not about a kind that the user has
// not chosen, unless nothing else is.
std::vector<Prediction> Predictor::predict_kinds(const SchemeInfo& info) {
  std::vector<Prediction> both;
  for (const char* kind : {"sign", "top_k"})
    both.push_back(
        predict_able(info, {fmt::format("--compress.kind={}", kind)}));
  const auto can = [](const Prediction& one) { return one.obstacle.empty(); };
  const auto is_refused = [](const Prediction& one) {
    return is_about(one, "compress.kind");
  };
  if (std::ranges::any_of(both, can))
    std::erase_if(both, std::not_fn(can));
  else if (!std::ranges::all_of(both, is_refused))
    std::erase_if(both, is_refused);
  return both;
}

std::vector<Prediction> Predictor::predict_others(const Variant& of_bsp) {
  const bool has_compressor = base_.input.given.contains("compress.kind");
  std::vector<Prediction> all;
  for (const SchemeInfo& info : scheme_table()) {
    if (info.keyword == "bsp" || info.is_composite) continue;
    if (info.uses_compressor && !has_compressor) {
      for (Prediction& one : predict_kinds(info)) all.push_back(std::move(one));
      continue;
    }
    all.push_back(predict_able(info, {}));
    if (auto tuned = predict_tuned(all.back(), of_bsp))
      all.push_back(std::move(*tuned));
  }
  sort_by_speed(all);
  return all;
}

}  // namespace syncopate
