#include "train/checkpoint_model.h"

#include <algorithm>

#include "base/text.h"
#include "checkpoint/agreement.h"
#include "config/keys.h"
#include "train/export_model.h"

namespace syncopate {
namespace {

// Returns a flat range as `worker`, or as all workers, had it at the
// checkpoint.
std::vector<float> load_range(const FoundCheckpoint& found,
                              const std::string& name,
                              const ParameterTable& table,
                              int worker) {
  std::vector<float> values(table.num_elems());
  if (values.empty()) return values;
  const Owner owner = has_state(found, Owner::kShared, worker, name)
                          ? Owner::kShared
                          : Owner::kWorker;
  const auto visit = [&](StateVisitor& visitor) {
    visitor.visit_range(owner, name, table, values);
  };
  load_checkpoint(found, worker, visit, LeftOver::kIgnored);
  return values;
}

const ModelRanges& ranges_of(EvalChoice which) {
  if (which == EvalChoice::kCentre) return kCentreRanges;
  return which == EvalChoice::kEma ? kEmaRanges : kModelRanges;
}

// Accumulates the values of several workers and returns their mean.
class Mean {
 public:
  void add(const std::vector<float>& values) {
    sums_.resize(values.size(), 0.0);
    for (size_t i = 0; i < values.size(); ++i) sums_[i] += values[i];
    ++count_;
  }
  std::vector<float> get() const {
    std::vector<float> mean;
    for (const double sum : sums_)
      mean.push_back(static_cast<float>(sum / count_));
    return mean;
  }

 private:
  std::vector<double> sums_;
  int count_ = 0;
};

}  // namespace

FoundCheckpoint find_model(const fs::path& path) {
  if (!fs::exists(path))
    fail(ExitCode::kInputMissing, "{}: no such checkpoint", path.string());
  if (fs::exists(path / "manifest.json")) return verify_checkpoint(path);
  for (const fs::path& folder : {path / "checkpoints", path})
    if (fs::is_directory(folder))
      if (auto found = find_newest_checkpoint(folder)) return *found;
  fail(ExitCode::kInputMissing, "{}: holds no checkpoint", path.string());
}

fs::path checkpoint_folder(const fs::path& path) {
  const bool holds_some = fs::is_directory(path) &&
                          !fs::exists(path / "manifest.json") &&
                          !path.filename().string().starts_with("step-");
  return holds_some ? find_model(path).folder : path;
}

ModelTables tables_of(const Model& network) {
  return {network.parameters(), network.buffers()};
}

bool has_range(const FoundCheckpoint& found, const char* name) {
  return has_state(found, Owner::kShared, 0, name) ||
         has_state(found, Owner::kWorker, 0, name);
}

bool is_shared_by_all(const FoundCheckpoint& found,
                      const ModelTables& tables,
                      const ModelRanges& ranges) {
  return has_state(found, Owner::kShared, 0, ranges.parameters) &&
         (tables.buffers.num_elems() == 0 ||
          has_state(found, Owner::kShared, 0, ranges.buffers));
}

HostModel load_worker(const FoundCheckpoint& found,
                      const ModelTables& tables,
                      const ModelRanges& ranges,
                      int worker) {
  return {load_range(found, ranges.parameters, tables.parameters, worker),
          load_range(found, ranges.buffers, tables.buffers, worker)};
}

HostModel mean_model(const FoundCheckpoint& found,
                     const ModelTables& tables,
                     const ModelRanges& ranges) {
  const int workers =
      is_shared_by_all(found, tables, ranges) ? 1 : found.facts.workers;
  if (workers == 1) return load_worker(found, tables, ranges, 0);
  Mean mean_parameters, mean_buffers;
  for (int worker = 0; worker < workers; ++worker) {
    const HostModel own = load_worker(found, tables, ranges, worker);
    mean_parameters.add(own.parameters);
    mean_buffers.add(own.buffers);
  }
  return {mean_parameters.get(), mean_buffers.get()};
}

std::optional<SavedRun> saved_network(const fs::path& path) {
  std::vector<fs::path> folders = {path};
  for (const fs::path& inside : {path / "checkpoints", path})
    if (fs::is_directory(inside))
      for (const fs::path& folder : checkpoint_folders(inside))
        folders.push_back(folder);
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder / "manifest.json")) continue;
    SavedRun saved;
    saved.input.take = SavedInput::Take::kNetwork;
    const Outcome outcome = attempt([&] {
      const CheckpointFacts facts = read_checkpoint_facts(folder);
      saved.input.values = facts.input;
      saved.facts = facts.extra;
    });
    if (outcome.ok()) return saved;
  }
  return std::nullopt;
}

void refuse_other_network(const Engine& engine, const FoundCheckpoint& found) {
  const auto compare = [&](const std::string& key, const std::string& value) {
    const auto mine = engine.input.resolved.find(key);
    if (mine == engine.input.resolved.end() || mine->second != value)
      fail(ExitCode::kBadInput, "{}: {}: the checkpoint has {}, the input {}",
           found.folder.string(), key, value,
           mine == engine.input.resolved.end() ? "none" : mine->second);
  };
  // First the key on which it depends which others there are.
  const auto family = found.facts.input.find("model.family");
  if (family != found.facts.input.end()) compare(family->first, family->second);
  for (const auto& [key, value] : found.facts.input) {
    const Key* known = find_key(key);
    if (key.starts_with("model.") &&
        (known == nullptr || known->on_resume != OnResume::kMayChange))
      compare(key, value);
  }
}

void average_model(const FoundCheckpoint& found,
                   const Model& network,
                   std::span<float> parameters,
                   std::span<float> buffers) {
  const HostModel mean = mean_model(found, tables_of(network));
  std::ranges::copy(mean.parameters, parameters.begin());
  std::ranges::copy(mean.buffers, buffers.begin());
}

namespace {

// Images may have another size, but not another number of channels.
void check_samples(const Engine& engine,
                   const FoundCheckpoint& found,
                   Log& log) {
  const auto& facts = found.facts.extra;
  const SampleSpec spec = engine.problem->spec();
  const auto* image = std::get_if<ImageSpec>(&spec);
  const auto sample = facts.find(kSampleFact), data = facts.find("data");
  const std::string mine = sample_fact(spec), folder = found.folder.string();
  const auto vocabulary = facts.find(kVocabularyFact);
  if (vocabulary != facts.end() &&
      vocabulary->second != engine.problem->vocabulary())
    fail(ExitCode::kBadInput,
         "{}: trained with another vocabulary than that of {}", folder,
         engine.problem->source());
  if (image != nullptr && sample != facts.end() && sample->second != mine) {
    const std::string text =
        fmt::format("images are {}, but {} was trained on {}", mine, folder,
                    sample->second);
    if (!sample->second.starts_with(fmt::format("{} x ", image->C)))
      fail(ExitCode::kBadInput, "{}", text);
    log.warning(text);
  } else if (!engine.split.train.empty() && data != facts.end() &&
             data->second != engine.problem->digest()) {
    log.warning("the data differ from those that " + folder +
                " was trained on");
  }
  const auto differs = [&](const char* key) {
    const auto there = found.facts.input.find(key);
    const auto here = engine.input.resolved.find(key);
    return there != found.facts.input.end() &&
           here != engine.input.resolved.end() && there->second != here->second;
  };
  if (engine.options.eval.on == SetPart::kValidation)
    for (const char* key : {"run.seed", "data.validation"})
      if (differs(key))
        log.warning(fmt::format(
            "{} is {}, in {} it was {}: other samples are held out, and the "
            "model was trained on some of them",
            key, engine.input.resolved.at(key), folder,
            found.facts.input.at(key)));
  for (const char* key :
       {"eval.model", "eval.batchnorm", "eval.recompute_batches",
        "eval.max_answer_length", "eval.n_best", "data.eval_resize",
        "data.lower_case", "data.normalize"})
    if (differs(key))
      log.warning(fmt::format("{} is {}, in {} it was {}", key,
                              engine.input.resolved.at(key), folder,
                              found.facts.input.at(key)));
  const auto classes = facts.find(kClassNamesFact);
  const std::string names = join(engine.problem->class_names(), "\n");
  if (!names.empty() && classes != facts.end() && classes->second != names)
    fail(ExitCode::kBadInput,
         "{}: its classes differ in name or order from those of {}", folder,
         engine.problem->source());
}

CheckpointModels models_of(const Engine& engine,
                           const FoundCheckpoint& found,
                           Log& log) {
  for (const std::string& warning : found.warnings) log.warning(warning);
  refuse_other_network(engine, found);
  check_samples(engine, found, log);
  engine.problem->restore(*engine.context, found.facts.extra);
  if (const std::string doubt = engine.problem->doubt(); !doubt.empty())
    log.warning(doubt);

  const ModelTables network = tables_of(*engine.model);
  const EvalChoice which = engine.options.eval.model;
  const ModelRanges ranges = ranges_of(which);
  if (!has_range(found, ranges.parameters))
    fail(ExitCode::kBadInput,
         "{}: has no {}, expected eval.model = average, rank0 or each",
         found.folder.string(),
         which == EvalChoice::kCentre ? "centre" : "moving average");
  std::string files;
  for (const CheckpointFile& file : found.files) files += file.digest;
  CheckpointModels all{found.folder.string(), digest_of(files), {}, {}};
  const auto made = [&](const HostModel& values) {
    EvaluatedModel model(engine);
    model.parameters.assign(values.parameters);
    model.buffers.assign(values.buffers);
    model.prepare(engine);
    return model;
  };
  if (which == EvalChoice::kRank0) {
    all.models.push_back(made(load_worker(found, network, ranges, 0)));
  } else if (!includes_each(which)) {
    all.models.push_back(made(mean_model(found, network, ranges)));
  } else {
    const bool is_shared = is_shared_by_all(found, network, ranges);
    const int files = is_shared ? 1 : found.facts.workers;
    for (int worker = 0; worker < files; ++worker)
      all.models.push_back(made(load_worker(found, network, ranges, worker)));
  }
  if (which == EvalChoice::kEachAndAverage)
    all.average = made(mean_model(found, network, ranges));
  return all;
}

}  // namespace

CheckpointModels load_models(const Engine& engine,
                             const std::string& path,
                             Log& log) {
  return read_model(path, [&](const FoundCheckpoint& found) {
    return models_of(engine, found, log);
  });
}

}  // namespace syncopate
