#include "app/checkpoint_model.h"

#include "app/evaluator.h"
#include "checkpoint/checkpoint.h"

namespace syncopate {
namespace {

FoundCheckpoint find(const fs::path& path) {
  if (!fs::exists(path))
    fail(ExitCode::kInputMissing, "{}: no such checkpoint", path.string());
  if (fs::exists(path / "manifest.json")) return verify_checkpoint(path);
  for (const fs::path& folder : {path / "checkpoints", path})
    if (fs::is_directory(folder))
      if (auto found = find_newest_checkpoint(folder)) return *found;
  fail(ExitCode::kInputMissing, "{}: holds no checkpoint", path.string());
}

// The keys that make a network must be those that it was trained with.
void refuse_other_network(const Engine& engine, const FoundCheckpoint& found) {
  for (const auto& [key, value] : found.facts.input) {
    if (!key.starts_with("model.")) continue;
    const auto mine = engine.input.resolved.find(key);
    if (mine == engine.input.resolved.end() || mine->second != value)
      fail(ExitCode::kBadInput, "{}: {}: the checkpoint has {}, the input {}",
           found.folder.string(), key, value,
           mine == engine.input.resolved.end() ? "none" : mine->second);
  }
}

std::vector<float> load_buffers(const Engine& engine,
                                const FoundCheckpoint& found,
                                Owner owner,
                                int worker) {
  const ParameterTable& table = engine.model->buffers();
  std::vector<float> buffers(table.num_elems());
  load_some_state(found, worker, [&](StateVisitor& visitor) {
    visitor.visit_range(owner, "buffers", table, buffers);
  });
  return buffers;
}

}  // namespace

CheckpointModels load_models(const Engine& engine,
                             const std::string& path,
                             Log& log) {
  const FoundCheckpoint found = find(path);
  for (const std::string& warning : found.warnings) log.warning(warning);
  refuse_other_network(engine, found);
  const auto data = found.facts.extra.find("data");
  if (data != found.facts.extra.end() && data->second != engine.data_digest())
    log.warning("not the data that " + found.folder.string() +
                " was trained on (normalisation may differ too)");

  const Model& network = *engine.model;
  std::vector<float> parameters(network.parameters().num_elems());
  load_some_state(found, 0, [&](StateVisitor& visitor) {
    visitor.visit_range(Owner::kShared, "parameters", network.parameters(),
                        parameters);
  });
  const auto batchnorm = found.facts.input.find("bsp.batchnorm");
  const bool is_shared =
      batchnorm != found.facts.input.end() && batchnorm->second == "averaged";
  const Owner owner = is_shared ? Owner::kShared : Owner::kWorker;
  const std::string& which = engine.options.eval.model;
  const int files = is_shared || which == "rank0" ? 1 : found.facts.workers;

  CheckpointModels all{found.folder.string(), {}};
  std::vector<double> sums(network.buffers().num_elems(), 0.0);
  std::vector<float> buffers;
  const auto add_model = [&] {
    Device& device = *engine.device;
    Stream& stream = *engine.stream;
    all.models.push_back({{device, stream, std::ssize(parameters)},
                          {device, stream, std::ssize(buffers)}});
    all.models.back().parameters.assign(parameters);
    all.models.back().buffers.assign(buffers);
  };
  for (int worker = 0; worker < files; ++worker) {
    buffers = load_buffers(engine, found, owner, worker);
    if (which == "each") add_model();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += buffers[i];
  }
  if (which != "each") {
    for (size_t i = 0; i < sums.size(); ++i)
      buffers[i] = static_cast<float>(sums[i] / files);
    add_model();
  }
  if (engine.options.eval.batchnorm == "recomputed")
    for (CheckpointModel& one : all.models)
      recompute_statistics(engine, one.view());
  return all;
}

}  // namespace syncopate
