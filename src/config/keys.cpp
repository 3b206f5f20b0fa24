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
              "and exits with 75; 0: none. Of this and the end of a Slurm "
              "job, which is asked for, the earlier counts.",
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
       .used_when = {{"model.family", {"resnet", "wrn", "bert", "deepfm"}}}},
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
              "metrics), the average model, rank 0's, each and the average, or "
              "the centre of easgd.",
       .choices = {"each", "average", "rank0", "each_and_average", "centre"}},
      {.name = "eval.on",
       .target = at<kEval, &EvalOptions::on>,
       .doc = "The samples: the test set, or those that data.validation "
              "holds out. With validation the test set is evaluated as well "
              "whenever the score is the best so far.",
       .choices = {"test", "validation"}},
      {.name = "eval.batch",
       .target = at<kEval, &EvalOptions::batch>,
       .doc = "Samples of an evaluation batch; of questions at least the "
              "windows of any one.",
       .low = 1},
      {.name = "eval.batchnorm",
       .target = at<kEval, &EvalOptions::batchnorm>,
       .doc = "BatchNorm's statistics: as training left them, or recomputed "
              "over training batches before each evaluation.",
       .choices = {"running", "recomputed"},
       .used_when = {{"model.family", {"resnet", "wrn", "deepfm"}}}},
      {.name = "eval.recompute_batches",
       .target = at<kEval, &EvalOptions::recompute_batches>,
       .doc = "Training batches over which the statistics are recomputed.",
       .low = 1,
       .used_when = {{"eval.batchnorm", {"recomputed"}}}},
      {.name = "eval.n_best",
       .target = at<kEval, &EvalOptions::n_best>,
       .doc = "Candidates for an answer that are kept of a question.",
       .low = 1,
       .used_when = {{"data.kind", question_kinds()}}},
      {.name = "eval.max_answer_length",
       .target = at<kEval, &EvalOptions::max_answer_length>,
       .doc = "Tokens of the longest answer that is considered.",
       .low = 1,
       .used_when = {{"data.kind", question_kinds()}}},
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
              "goes on or, where keys are others, a new run starts with its "
              "model.",
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

// In one process they cost virtual time, under MPI they sleep.
std::vector<Key> straggler_keys() {
  constexpr auto kStragglers = &Options::stragglers;
  const std::vector<UsedWhen> with_random = {
      {"stragglers.random", {"uniform", "exponential", "pareto"}}};
  const std::vector<UsedWhen> with_delay = {{"stragglers.delay_ms", {}}};
  return {
      {.name = "stragglers.factor",
       .target = at<kStragglers, &StragglerOptions::factor>,
       .doc = "What a step's computing takes on each worker, times what it "
              "would; or one number for all.",
       .low = 1,
       .zero_word = "1"},
      {.name = "stragglers.delay_ms",
       .target = at<kStragglers, &StragglerOptions::delay_ms>,
       .doc = "Milliseconds added to each step of the delayed workers.",
       .low = 0},
      {.name = "stragglers.delay_workers",
       .target = at<kStragglers, &StragglerOptions::delay_workers>,
       .doc = "Ranks that are delayed; must be given.",
       .low = 0,
       .zero_word = "none",
       .used_when = with_delay},
      {.name = "stragglers.delay_from",
       .target = at<kStragglers, &StragglerOptions::delay_from>,
       .doc = "The worker's own step at which the delay begins.",
       .low = 0,
       .used_when = with_delay},
      {.name = "stragglers.delay_until",
       .target = at<kStragglers, &StragglerOptions::delay_until>,
       .doc = "The worker's own step at which the delay is over; 0: never.",
       .low = 0,
       .used_when = with_delay},
      {.name = "stragglers.random",
       .target = at<kStragglers, &StragglerOptions::random>,
       .doc = "Distribution of random delays of all workers' steps; pareto: "
              "with exponent 2.",
       .choices = {"none", "uniform", "exponential", "pareto"}},
      {.name = "stragglers.random_ms",
       .target = at<kStragglers, &StragglerOptions::random_ms>,
       .doc = "Mean of the random delays in milliseconds.",
       .low = 0,
       .is_low_open = true,
       .used_when = with_random},
      {.name = "stragglers.random_share",
       .target = at<kStragglers, &StragglerOptions::random_share>,
       .doc = "Share of a worker's steps that is delayed at random.",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = with_random},
      {.name = "stragglers.episodes",
       .target = at<kStragglers, &StragglerOptions::episodes>,
       .doc = "Slow workers and slow links for a while, such as "
              "6+7:link:+30ms:from=60s:for=94s (see Stragglers above).",
       .zero_word = "none"},
  };
}

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = [] {
    std::vector<Key> all;
    for (const auto section :
         {run_keys,        device_keys,    watch_keys,     model_keys,
          data_keys,       optimizer_keys, schedule_keys,  sync_keys,
          ds_sync_keys,    local_keys,     server_keys,    esync_keys,
          switching_keys,  gossip_keys,    message_keys,   eval_keys,
          checkpoint_keys, virtual_keys,   straggler_keys, fault_keys})
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
