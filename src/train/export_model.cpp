#include "train/export_model.h"

#include <fmt/format.h>

#include "base/text.h"
#include "models/file_names.h"
#include "models/registry.h"
#include "train/checkpoint_model.h"

namespace syncopate {
namespace {

// Returns a key's value in the run's resolved input; "" if it is not there.
std::string key_if_used(const FoundCheckpoint& found, const std::string& key) {
  const auto value = found.facts.input.find(key);
  return value == found.facts.input.end() ? "" : value->second;
}

// The same for a key that every run has.
std::string key_of(const FoundCheckpoint& found, const std::string& key) {
  const std::string value = key_if_used(found, key);
  if (value.empty())
    fail(ExitCode::kBadInput, "{}: does not say its {}", found.folder.string(),
         key);
  return value;
}

int64_t channels_of(const FoundCheckpoint& found) {
  const auto sample = found.facts.extra.find(kSampleFact);
  const auto channels = sample == found.facts.extra.end()
                            ? std::nullopt
                            : parse_int(split(sample->second, ' ').front());
  if (!channels || *channels < 1)
    fail(ExitCode::kBadInput,
         "{}: does not say the channels of its images: written by an earlier "
         "program; resume the run with this one, which does",
         found.folder.string());
  return *channels;
}

struct Chosen {
  HostModel model;
  std::string which;
};

Chosen choose(const FoundCheckpoint& found,
              const ModelTables& tables,
              const std::string& replica) {
  const int workers = found.facts.workers;
  const std::string average = is_shared_by_all(found, tables)
                                  ? "shared by all workers"
                                  : "average of " + counted(workers, "worker");
  if (replica == "average") return {mean_model(found, tables), average};
  if (replica == "centre") {
    if (!has_state(found, Owner::kShared, 0, "centre"))
      fail(ExitCode::kBadInput,
           "{}: has no centre, expected --replica=average or a worker",
           found.folder.string());
    return {mean_model(found, tables, kCentreRanges), "centre"};
  }
  if (replica == "ema") {
    if (!has_range(found, kEmaRanges.parameters))
      fail(ExitCode::kBadInput,
           "{}: has no moving average, expected --replica=average or a worker",
           found.folder.string());
    return {mean_model(found, tables, kEmaRanges), "moving average"};
  }
  const auto worker = parse_int(replica);
  if (!worker || *worker < 0 || *worker >= workers)
    fail(ExitCode::kUsage,
         "--replica={}: expected average, centre, ema or a worker from 0 to {}",
         replica, workers - 1);
  return {load_worker(found, tables, kModelRanges, static_cast<int>(*worker)),
          fmt::format("worker {} of {}", *worker, workers)};
}

// Keys of the network and what a sample is fed as.
void add_facts(const FoundCheckpoint& found,
               std::map<std::string, std::string>& metadata) {
  const CheckpointFacts& facts = found.facts;
  for (const auto& [key, value] : facts.input)
    if ((key.starts_with("model.") && key != "model.weights") ||
        key == "data.kind" || key == "data.normalize")
      metadata[key] = value;
  for (const auto& [name, value] : facts.extra)
    if (name == kSampleFact || name == "normalization") metadata[name] = value;
  metadata["step"] = std::to_string(facts.step);
  metadata["scheme"] = facts.scheme;
  metadata["workers"] = std::to_string(facts.workers);
}

// Whether evaluations used other statistics than those that are exported.
bool recomputes_batchnorm(const FoundCheckpoint& found) {
  return key_if_used(found, "eval.batchnorm") == "recomputed";
}

// The training batches that a worker has seen.
int64_t batches_of(const FoundCheckpoint& found) {
  return found.facts.step *
         parse_int(key_if_used(found, "data.accumulate")).value_or(1);
}

}  // namespace

std::string sample_fact(const SampleSpec& spec) {
  if (const auto* image = std::get_if<ImageSpec>(&spec))
    return fmt::format("{} x {} x {}", image->C, image->H, image->W);
  if (const auto* clicks = std::get_if<ClickSpec>(&spec))
    return fmt::format("{}", fmt::join(clicks->rows, " "));
  return "";
}

std::string evaluated_replica(const FoundCheckpoint& found) {
  const std::string model = key_if_used(found, "eval.model");
  if (model == "ema" || model == "centre") return model;
  return model == "rank0" ? "0" : "average";
}

std::string export_model(const FoundCheckpoint& found,
                         const std::string& replica,
                         std::map<std::string, std::string> metadata,
                         const fs::path& output) {
  const FileNames& names = model_info(key_of(found, "model.family")).names();
  const auto stored = [&](const std::string& range) {
    const bool is_shared = has_state(found, Owner::kShared, 0, range);
    return stored_tensors(found, is_shared ? Owner::kShared : Owner::kWorker, 0,
                          range);
  };
  const ParameterTable parameters = stored("parameters");
  const ParameterTable buffers = stored("buffers");
  if (parameters.num_tensors() == 0)
    fail(ExitCode::kBadInput, "{}: has no parameters", found.folder.string());
  const Chosen chosen = choose(found, {parameters, buffers}, replica);
  const int64_t channels = names.pixels.empty() ? 0 : channels_of(found);
  add_facts(found, metadata);
  metadata["format"] = "pt";  // Hugging Face's loader wants to be told
  metadata["replica"] = chosen.which;
  metadata["names"] = names.whose;
  if (recomputes_batchnorm(found)) metadata["batchnorm"] = "running";
  write_model(
      output, names,
      {parameters, buffers, chosen.model.parameters, chosen.model.buffers},
      channels, batches_of(found), metadata);
  return fmt::format(
      "{} tensors, {} parameters, names of {}; step {}, {}{}",
      tensors_in_file(names, parameters, buffers).size(),
      parameters.num_elems(), names.whose, found.facts.step, chosen.which,
      recomputes_batchnorm(found)
          ? "; with BatchNorm's running statistics, where evaluations of this "
            "run recomputed them (eval.batchnorm), so accuracies may differ"
          : "");
}

}  // namespace syncopate
