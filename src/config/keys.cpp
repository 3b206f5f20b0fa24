#include "config/keys.h"

#include <algorithm>

#include "base/check.h"
#include "base/trace_file.h"
#include "config/goal.h"
#include "config/key_sections.h"

namespace syncopate {
namespace {

// A shell expands neither after an equals sign, and an input file never.
bool is_plain_path(const std::string& text) {
  return !text.starts_with("~") && text.find('$') == std::string::npos;
}

// Accepts folder names without unknown placeholders.
bool is_run_name(const std::string& text) {
  if (text == "." || text == "..") return false;
  for (std::string_view rest = text; !rest.empty();) {
    size_t taken = 1;
    for (const std::string_view known :
         {"{scheme}", "{seed}", "{workers}", "{job}"})
      if (rest.starts_with(known)) taken = known.size();
    const std::string_view refused = "/{}\\ \t";
    if (taken == 1 && refused.find(rest.front()) != std::string_view::npos)
      return false;
    rest.remove_prefix(taken);
  }
  return true;
}

bool is_target(const std::string& text) {
  return parse_goal(text).has_value();
}

}  // namespace

Keys run_keys() {
  return not_negative({
      {.name = "run.name",
       .place = &RunOptions::name,
       .doc = "Folder of the run inside run.directory; {scheme}, {seed}, "
              "{workers} and {job} (the Slurm job) are replaced by their "
              "values.",
       .form = {"a folder name without blanks, which may hold {scheme} {seed} "
                "{workers} {job}",
                is_run_name},
       .on_resume = OnResume::kMayChange},
      {.name = "run.directory",
       .place = &RunOptions::directory,
       .doc = "Folder that contains runs; created if it does not exist. The "
              "environment variable SYNCOPATE_RUNS replaces the default.",
       .form = {"a path without ~ at its beginning and without $, which "
                "nothing expands here",
                is_plain_path},
       .on_resume = OnResume::kMayChange},
      {.name = "run.seed",
       .place = &RunOptions::seed,
       .doc = "Seed of initial values, data order, augmentation and dropout."},
      {.name = "run.epochs",
       .place = &RunOptions::epochs,
       .doc = "Length of the run in passes over the training data; 0: "
              "given by run.steps. If both are given, the shorter one "
              "applies.",
       .on_resume = OnResume::kMayExtend},
      {.name = "run.steps",
       .place = &RunOptions::steps,
       .doc = "Length of the run in steps of one worker (worker_steps / "
              "workers); 0: given by run.epochs.",
       .on_resume = OnResume::kMayExtend},
      {.name = "run.virtual_limit_s",
       .place = &RunOptions::virtual_limit_s,
       .doc = "For workers in one process: length of the run in seconds of "
              "virtual time; a simulation sets run.steps to the largest "
              "number of steps that end in time. 0: given by run.steps or "
              "run.epochs.",
       .on_resume = OnResume::kMayExtend},
      {.name = "run.stop_at",
       .place = &RunOptions::stop_at,
       .doc = "Stop here with a checkpoint and exit code 0, to be "
              "resumed later; schedules do not depend on it. 0: at the "
              "end.",
       .on_resume = OnResume::kMayChange},
      {.name = "run.target",
       .place = &RunOptions::target,
       .doc = "The run ends at the first evaluation with this result, such as "
              "accuracy >= 0.9 or loss <= 0.3, if it comes before the last "
              "step; schedules ignore it.",
       .zero_word = "-",
       .form = {"a result such as accuracy >= 0.9 or loss <= 0.3", is_target},
       .on_resume = OnResume::kMayChange},
      {.name = "run.workers",
       .place = &RunOptions::workers,
       .doc = "Workers in one process; auto: the number of MPI ranks, "
              "or 1.",
       .low = 1,
       .high = 65536,  // a worker's tag range and file name: far beyond use
       .zero_word = "auto",
       .is_by_worker = true},
      {.name = "run.log_every",
       .place = &RunOptions::log_every,
       .doc = "Interval of log lines and of rows of /train and /comm.",
       .is_low_open = true,
       .on_resume = OnResume::kMayChange},
      {.name = "run.time_limit_s",
       .place = &RunOptions::time_limit_s,
       .doc = "Seconds of wall time within which the run saves a "
              "checkpoint and exits with 75; 0: none. In a Slurm job, "
              "the job's end also limits the run.",
       .on_resume = OnResume::kMayChange},
  });
}

// Keys of [run] that choose the hardware and its use.
Keys device_keys() {
  return {
      {.name = "run.device",
       .place = &RunOptions::device,
       .doc = "Device on which layers are computed; auto: a GPU if "
              "there is one."},
      {.name = "run.threads",
       .place = &RunOptions::threads,
       .doc = "OpenMP threads per worker (the bits of results "
              "depend on it); auto: OMP_NUM_THREADS if it is set, else the "
              "cores available to a worker.",
       .low = 1,
       .high = kMostThreads,
       .zero_word = "auto"},
      {.name = "run.precision",
       .place = &RunOptions::precision,
       .doc = "Type of activations; parameters are always fp32. bf16 "
              "needs a processor or GPU that supports it.",
       .used_when = {{"model.family", {}, "bf16"}}},
      {.name = "run.bf16_weights",
       .place = &RunOptions::bf16_weights,
       .doc = "On a GPU: whether the optimizer also writes copies of the "
              "weights in bf16, instead of rounding them before each product. "
              "The results are the same; the copies take 2 bytes per "
              "parameter.",
       .used_when = {{"run.precision", {"bf16"}}},
       .on_resume = OnResume::kMayChange},
      {.name = "run.deterministic",
       .place = &RunOptions::deterministic,
       .doc = "On a GPU: whether the same input gives the same bits, as "
              "it always does on a CPU; no may be faster."},
      {.name = "run.plans",
       .place = &RunOptions::plans,
       .doc = "On a GPU: file of plans that bench ops --tune has measured for "
              "cuDNN and cuBLASLt; none: their heuristics choose."},
      {.name = "run.cuda_graphs",
       .place = &RunOptions::cuda_graphs,
       .doc = "On a GPU: whether training steps are recorded once and "
              "replayed.",
       .on_resume = OnResume::kMayChange},
  };
}

Keys eval_keys() {
  return not_negative({
      {.name = "eval.every",
       .place = &EvalOptions::every,
       .doc = "Interval of evaluations, in addition to one at the end; "
              "0: only at the end."},
      {.name = "eval.model",
       .place = &EvalOptions::model,
       .doc = "Which model is evaluated: each worker's (mean of the "
              "metrics), the average model, rank 0's, each and the "
              "average, easgd's centre, or ema: the exponential moving "
              "average of the workers' models over the steps."},
      {.name = "eval.ema_decay",
       .place = &EvalOptions::ema_decay,
       .doc = "Decay d of the moving average: d * average + (1 - d) * model, "
              "parameters and BatchNorm's statistics alike.",
       .high = 1,
       .is_high_open = true,
       .used_when = {{"eval.model", {"ema"}}}},
      {.name = "eval.ema_every",
       .place = &EvalOptions::ema_every,
       .doc = "Steps of a worker between updates of its moving average. In "
              "the schedule's warm-up, and at the first update after it, the "
              "average becomes a copy of the model.",
       .low = 1,
       .used_when = {{"eval.model", {"ema"}}}},
      {.name = "eval.on",
       .place = &EvalOptions::on,
       .doc = "Samples of the evaluation: the test set, or those held "
              "out by data.validation. In the latter case the test set "
              "is also evaluated whenever the score is the best so far.",
       .choices = {"test", "validation"}},
      {.name = "eval.batch",
       .place = &EvalOptions::batch,
       .doc = "Samples per evaluation batch; for questions, at least as many "
              "as the longest question has windows.",
       .low = 1},
      {.name = "eval.batchnorm",
       .place = &EvalOptions::batchnorm,
       .doc = "BatchNorm's statistics: those of training, or recomputed "
              "over training batches before each evaluation.",
       .used_when = {{"model.family", {}, "batchnorm"}}},
      {.name = "eval.recompute_batches",
       .place = &EvalOptions::recompute_batches,
       .doc = "Training batches over which the statistics are recomputed.",
       .low = 1,
       .used_when = {{"eval.batchnorm", {"recomputed"}}}},
      {.name = "eval.n_best",
       .place = &EvalOptions::n_best,
       .doc = "Candidate answers that are kept per question.",
       .low = 1,
       .used_when = {{"data.kind", {}, "questions"}}},
      {.name = "eval.max_answer_length",
       .place = &EvalOptions::max_answer_length,
       .doc = "Maximum number of tokens per answer.",
       .low = 1,
       .used_when = {{"data.kind", {}, "questions"}}},
  });
}

Keys checkpoint_keys() {
  return may_all_change(not_negative({
      {.name = "checkpoint.every",
       .place = &CheckpointOptions::every,
       .doc = "Interval of checkpoints, in addition to one at the end; "
              "0: only at the end."},
      {.name = "checkpoint.keep",
       .place = &CheckpointOptions::keep,
       .doc = "Number of newest checkpoints that are kept.",
       .low = 2},
      {.name = "checkpoint.resume",
       .place = &CheckpointOptions::resume,
       .doc = "auto: resume from the newest intact checkpoint in the "
              "run's folder, if there is one; none: refuse a folder "
              "that contains a run; or the path of a checkpoint, or of a "
              "run, to resume from if the folder has none. If other keys "
              "differ, a new run starts from its model.",
       .form = {"auto, none or the path of a checkpoint",
                [](const std::string&) { return true; }}},
      {.name = "checkpoint.best",
       .place = &CheckpointOptions::best,
       .doc = "A figure of the evaluations, such as accuracy or loss: the "
              "checkpoint with its best value is also kept, in "
              "checkpoints/best. none: no such checkpoint."},
  }));
}

Keys output_keys() {
  return may_all_change({
      {.name = "output.csv",
       .place = &OutputOptions::csv,
       .doc = "Whether the rows of /train, with /comm summed over workers, "
              "and of /eval are also appended to metrics.csv, as text."},
      {.name = "output.trace",
       .place = &OutputOptions::trace,
       .doc = "Whether trace.json in the run's folder shows what each worker "
              "computed, sent and waited for, and when; for ui.perfetto.dev "
              "and postprocess/timeline.py."},
      {.name = "output.trace_steps",
       .place = &OutputOptions::trace_steps,
       .doc = "FIRST:LAST, the steps to trace, in each worker's own count "
              "from 1.",
       .form = {"FIRST:LAST with 1 <= FIRST <= LAST",
                [](const std::string& text) {
                  return parse_trace_steps(text).has_value();
                }},
       .used_when = {{"output.trace", {"on"}}}},
  });
}

namespace {

// The choices that rules name by a trait.
void resolve_traits(Keys& keys) {
  for (Key& key : keys)
    for (UsedWhen& rule : key.used_when) {
      if (rule.trait.empty()) continue;
      const auto other = std::ranges::find(keys, rule.key, &Key::name);
      CHECK_MSG(other != keys.end() && other->traits.contains(rule.trait),
                "{}: used by {} with {}", key.name, rule.key, rule.trait);
      rule.values = other->traits.at(rule.trait);
    }
}

}  // namespace

const Keys& key_table() {
  static const Keys table = [] {
    Keys all;
    append(all, within(&Options::run, run_keys()));
    append(all, within(&Options::run, device_keys()));
    append(all, within(&Options::run, watch_keys()));
    append(all, within(&Options::model, model_keys()));
    append(all, within(&Options::data, data_keys()));
    append(all, within(&Options::optimizer, optimizer_keys()));
    append(all, within(&Options::schedule, schedule_keys()));
    append(all, within(&Options::sync, sync_keys()));
    append(all, within(&Options::eval, eval_keys()));
    append(all, within(&Options::checkpoint, checkpoint_keys()));
    append(all, within(&Options::output, output_keys()));
    append(all, within(&Options::compute, compute_keys()));
    append(all, within(&Options::network, network_keys()));
    append(all, within(&Options::stragglers, straggler_keys()));
    append(all, within(&Options::faults, fault_keys()));
    resolve_traits(all);
    return all;
  }();
  return table;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(key_table(), name, &Key::name);
  return found == key_table().end() ? nullptr : &*found;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : key_table())
    if (names.empty() || names.back() != key.section())
      names.push_back(key.section());
  return names;
}

}  // namespace syncopate
