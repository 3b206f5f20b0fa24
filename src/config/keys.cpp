#include "config/keys.h"

#include <algorithm>

#include "base/text.h"
#include "config/key_sections.h"

namespace syncopate {
namespace {

// A folder name with no placeholder but the known ones.
bool is_run_name(const std::string& text) {
  if (text == "." || text == "..") return false;
  for (std::string_view rest = text; !rest.empty();) {
    size_t taken = 1;
    for (const std::string_view known : {"{scheme}", "{seed}", "{job}"})
      if (rest.starts_with(known)) taken = known.size();
    const std::string_view refused = "/{}\\ \t";
    if (taken == 1 && refused.find(rest.front()) != std::string_view::npos)
      return false;
    rest.remove_prefix(taken);
  }
  return true;
}

std::vector<std::string> scheme_keywords() {
  std::vector<std::string> words;
  for (const SchemeInfo& info : scheme_table()) words.push_back(info.keyword);
  return words;
}

}  // namespace

std::vector<Key> run_keys() {
  constexpr auto kRun = &Options::run;
  return {
      {.name = "run.name",
       .target = at<kRun, &RunOptions::name>,
       .doc = "Folder of the run inside run.directory; {scheme}, {seed} and "
              "{job} (of Slurm) are filled in.",
       .form = {"a folder name that may hold {scheme} {seed} {job}",
                is_run_name},
       .on_resume = OnResume::kMayChange},
      {.name = "run.directory",
       .target = at<kRun, &RunOptions::directory>,
       .doc = "Folder that holds runs; it is made if it is missing.",
       .on_resume = OnResume::kMayChange},
      {.name = "run.seed",
       .target = at<kRun, &RunOptions::seed>,
       .doc = "Seed of initial values, data order, augmentation and dropout.",
       .low = 0},
      {.name = "run.epochs",
       .target = at<kRun, &RunOptions::epochs>,
       .doc = "Length of the run in passes over the training data; 0: given "
              "by run.steps. With both, what ends first.",
       .low = 0,
       .on_resume = OnResume::kMayExtend},
      {.name = "run.steps",
       .target = at<kRun, &RunOptions::steps>,
       .doc = "Length of the run in steps of one worker (worker_steps / "
              "workers); 0: given by run.epochs.",
       .low = 0,
       .on_resume = OnResume::kMayExtend},
      {.name = "run.stop_at",
       .target = at<kRun, &RunOptions::stop_at>,
       .doc = "Stop here with a checkpoint and exit code 0, to be resumed; "
              "schedules do not see it. 0: at the end.",
       .low = 0,
       .on_resume = OnResume::kMayChange},
      {.name = "run.workers",
       .target = at<kRun, &RunOptions::workers>,
       .doc = "Workers in one process; auto: as many as MPI ranks, or 1.",
       .low = 1,
       .high = 65536,  // a worker's tag range and file name: far beyond use
       .zero_word = "auto"},
      {.name = "run.log_every",
       .target = at<kRun, &RunOptions::log_every>,
       .doc = "Distance of lines in the log and of rows of /train and /comm.",
       .low = 0,
       .is_low_open = true,
       .on_resume = OnResume::kMayChange},
      {.name = "run.time_limit_s",
       .target = at<kRun, &RunOptions::time_limit_s>,
       .doc = "Seconds of wall time before which the run saves a checkpoint "
              "and exits with 75; 0: none.",
       .low = 0,
       .on_resume = OnResume::kMayChange},
  };
}

// What the run is computed on.
std::vector<Key> device_keys() {
  constexpr auto kRun = &Options::run;
  return {
      {.name = "run.device",
       .target = at<kRun, &RunOptions::device>,
       .doc = "Where layers are computed; auto: a GPU if there is one.",
       .choices = {"auto", "cpu", "cuda"}},
      {.name = "run.threads",
       .target = at<kRun, &RunOptions::threads>,
       .doc = "OpenMP threads of a worker (bits depend on it); auto: the "
              "cores that a worker has.",
       .low = 1,
       .high = 4096,  // more cores than a node has
       .zero_word = "auto"},
      {.name = "run.precision",
       .target = at<kRun, &RunOptions::precision>,
       .doc = "Arithmetic of activations; parameters are fp32 always. bf16 "
              "needs a processor or GPU that has it.",
       .choices = {"fp32", "bf16"},
       .used_when = {{"model.family", {"resnet", "wrn"}}}},
      {.name = "run.deterministic",
       .target = at<kRun, &RunOptions::deterministic>,
       .doc = "On a GPU: the same bits from the same input, as on a CPU "
              "always; off may be faster."},
      {.name = "run.cuda_graphs",
       .target = at<kRun, &RunOptions::cuda_graphs>,
       .doc = "On a GPU: training steps are recorded once and replayed.",
       .on_resume = OnResume::kMayChange},
  };
}

std::vector<Key> sync_keys() {
  constexpr auto kSync = &Options::sync;
  return {
      {.name = "sync.scheme",
       .target = at<kSync, &SyncOptions::scheme>,
       .doc = "The rule that keeps workers in step.",
       .choices = scheme_keywords()},
      {.name = "sync.transport",
       .target = at<kSync, &SyncOptions::transport>,
       .doc = "What carries gradients between GPUs of different ranks: NCCL, "
              "or MPI through host memory; auto: NCCL where every rank has "
              "its own GPU and the library is there.",
       .choices = {"auto", "mpi", "nccl"}},
      {.name = "sync.collective",
       .target = at<kSync, &SyncOptions::collective>,
       .doc = "Algorithm of the all-reduce through host memory; native: the "
              "MPI library's own.",
       .choices = {"ring", "native"}},
      {.name = "sync.wire",
       .target = at<kSync, &SyncOptions::wire>,
       .doc = "Number format of what travels; sums are formed in fp32 (NCCL "
              "rounds them to bf16 on their way).",
       .choices = {"fp32", "bf16"},
       .used_when = {{"sync.collective", {"ring"}}}},
      {.name = "sync.bucket_mb",
       .target = at<kSync, &SyncOptions::bucket_mb>,
       .doc = "Megabytes of gradients that travel together; auto: 4, by NCCL "
              "32.",
       .low = 0.001,
       .high = 65536,
       .zero_word = "auto"},
      {.name = "bsp.batchnorm",
       .target = at<kSync, &SyncOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: each worker's own, or "
              "averaged.",
       .choices = {"local", "averaged"},
       .used_when = {{"sync.scheme", {"bsp"}},
                     {"model.family", {"resnet", "wrn"}}}},
  };
}

std::vector<Key> eval_keys() {
  constexpr auto kEval = &Options::eval;
  return {
      {.name = "eval.every",
       .target = at<kEval, &EvalOptions::every>,
       .doc = "Distance of evaluations, one more comes at the end; 0: at the "
              "end only.",
       .low = 0},
      {.name = "eval.model",
       .target = at<kEval, &EvalOptions::model>,
       .doc = "What is evaluated: each worker's model (the mean of their "
              "metrics), the average model, or rank 0's.",
       .choices = {"each", "average", "rank0"}},
      {.name = "eval.on",
       .target = at<kEval, &EvalOptions::on>,
       .doc = "The samples: the test set, or those that data.validation "
              "holds out.",
       .choices = {"test", "validation"}},
      {.name = "eval.batch",
       .target = at<kEval, &EvalOptions::batch>,
       .doc = "Samples of an evaluation batch.",
       .low = 1},
      {.name = "eval.batchnorm",
       .target = at<kEval, &EvalOptions::batchnorm>,
       .doc = "BatchNorm's statistics: as training left them, or recomputed "
              "over training batches before each evaluation.",
       .choices = {"running", "recomputed"},
       .used_when = {{"model.family", {"resnet", "wrn"}}}},
      {.name = "eval.recompute_batches",
       .target = at<kEval, &EvalOptions::recompute_batches>,
       .doc = "Training batches over which the statistics are recomputed.",
       .low = 1,
       .used_when = {{"eval.batchnorm", {"recomputed"}}}},
  };
}

std::vector<Key> checkpoint_keys() {
  constexpr auto kCheckpoint = &Options::checkpoint;
  return {
      {.name = "checkpoint.every",
       .target = at<kCheckpoint, &CheckpointOptions::every>,
       .doc = "Distance of checkpoints, one more comes at the end; 0: at the "
              "end only.",
       .low = 0,
       .on_resume = OnResume::kMayChange},
      {.name = "checkpoint.keep",
       .target = at<kCheckpoint, &CheckpointOptions::keep>,
       .doc = "Newest checkpoints that are kept.",
       .low = 2,
       .on_resume = OnResume::kMayChange},
      {.name = "checkpoint.resume",
       .target = at<kCheckpoint, &CheckpointOptions::resume>,
       .doc = "auto: go on from the newest whole checkpoint of the run's "
              "folder, if it has one; none: refuse a folder that holds a run; "
              "or the path of a checkpoint from which a folder without any "
              "starts.",
       .form = {"auto, none or the path of a checkpoint",
                [](const std::string&) { return true; }},
       .on_resume = OnResume::kMayChange},
  };
}

// Virtual costs: the world inside one process runs by them.
std::vector<Key> virtual_keys() {
  constexpr auto kCompute = &Options::compute;
  constexpr auto kNetwork = &Options::network;
  return {
      {.name = "compute.step_s",
       .target = at<kCompute, &ComputeOptions::step_s>,
       .doc = "Virtual seconds of a step at speed 1; workers in one process.",
       .low = 0,
       .is_low_open = true},
      {.name = "compute.speed",
       .target = at<kCompute, &ComputeOptions::speed>,
       .doc = "Speed of each worker, or one number for all; workers in one "
              "process.",
       .low = 0,
       .is_low_open = true,
       .zero_word = "1"},
      {.name = "network.latency_us",
       .target = at<kNetwork, &NetworkOptions::latency_us>,
       .doc = "Virtual microseconds of a message; workers in one process.",
       .low = 0},
      {.name = "network.mbit_s",
       .target = at<kNetwork, &NetworkOptions::mbit_s>,
       .doc = "Virtual bandwidth of a worker in megabits a second, 0: no "
              "limit; workers in one process.",
       .low = 0},
  };
}

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = [] {
    std::vector<Key> all;
    for (const auto section :
         {run_keys, device_keys, model_keys, data_keys, optimizer_keys,
          schedule_keys, sync_keys, eval_keys, checkpoint_keys, virtual_keys})
      for (Key& key : section()) all.push_back(std::move(key));
    return all;
  }();
  return table;
}

const Key* find_key(std::string_view name) {
  for (const Key& key : key_table())
    if (key.name == name) return &key;
  return nullptr;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : key_table())
    if (names.empty() || names.back() != key.section())
      names.push_back(key.section());
  return names;
}

}  // namespace syncopate
