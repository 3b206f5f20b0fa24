// The resolved input of a run: plain data, one struct per section.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/choice.h"
#include "data/options.h"
#include "models/registry.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "sync/scheme.h"
#include "watch/activity.h"

namespace syncopate {

CHOICE(DeviceChoice, "auto cpu cuda", {kAuto, kCpu, kCuda});
CHOICE(Precision, "fp32 bf16", {kF32, kBf16});
CHOICE(OnNonfinite, "stop skip", {kStop, kSkip});

// A virtual step, delay or latency is at most this long.
inline constexpr double kLongestStep_s = 1e6;

inline constexpr int64_t kMostThreads = 4096;  // more cores than a node has

struct RunOptions {
  std::string name = "{scheme}-seed{seed}";  // run/run_directory.h
  std::string directory = "runs";
  int64_t seed = 1;
  double epochs = 0;  // if steps are given too: whichever ends first
  int64_t steps = 0;
  double virtual_limit_s = 0;  // as many steps as fit into it; 0: off
  Length stop_at;              // stop here (exit 0); 0: at the end
  std::string target;          // end at an evaluation with it (config/goal.h)
  int64_t workers = 0;         // 0: auto
  DeviceChoice device = DeviceChoice::kAuto;
  int64_t threads = 0;  // per worker; 0: auto
  Precision precision = Precision::kF32;
  bool bf16_weights = true;   // on a GPU: keeps bf16 copies of weights
  bool deterministic = true;  // on a GPU; a CPU always is
  bool cuda_graphs = true;
  std::string plans = "none";  // file of measured plans; none: heuristics
  Length log_every{50, false};
  double time_limit_s = 0;  // checkpoint and exit 75 before it; 0: none
  bool watchdog = true;
  double step_timeout_s = 0;  // 0: from the median
  double io_timeout_s = 600;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  Length audit{100, false};  // 0: never
};

CHOICE(EvalChoice,
       "each average rank0 each_and_average centre ema",
       {kEach, kAverage, kRank0, kEachAndAverage, kCentre, kEma});
constexpr bool includes_each(EvalChoice which) {
  return which == EvalChoice::kEach || which == EvalChoice::kEachAndAverage;
}
// The training samples without augmentation, those held out of the training
// set, or the test set.
CHOICE(SetPart, "training validation test", {kTraining, kValidation, kTest});
CHOICE(EvalStatistics, "running recomputed", {kRunning, kRecomputed});

struct EvalOptions {
  Length every{1, true};  // and at the end; 0: at the end only
  EvalChoice model = EvalChoice::kAverage;
  double ema_decay = 0.9999;    // for ema, as is the next
  int64_t ema_every = 1;        // steps
  SetPart on = SetPart::kTest;  // or kValidation
  int64_t batch = 250;
  // Whether BatchNorm's running statistics are used as they are or recomputed
  // before each evaluation, and over how many training batches.
  EvalStatistics batchnorm = EvalStatistics::kRunning;
  int64_t recompute_batches = 20;
  // For answers to questions.
  int64_t n_best = 20;             // candidates that are kept
  int64_t max_answer_length = 30;  // tokens
};

struct CheckpointOptions {
  Length every{0, false};  // 0: only at the end
  int64_t keep = 2;
  std::string resume = "auto";  // auto none PATH
  std::string best = "none";    // a metric of evaluations
};

CHOICE(Tracing, "off on", {kOff, kOn});

struct OutputOptions {
  bool csv = false;
  Tracing trace = Tracing::kOff;     // comm/trace.h
  std::string trace_steps = "1:20";  // base/trace_file.h
};

// Virtual time of the in-process world.
CHOICE(StepLaw,
       "constant lognormal gamma trace",
       {kConstant, kLognormal, kGamma, kTrace});

// Returns the number of workers: one for each MPI rank or, in a single process,
// run.workers. Several ranks must agree with run.workers, which check_world()
// tests.
inline int workers_of(const RunOptions& run, int ranks) {
  return ranks > 1 ? ranks : std::max(1, static_cast<int>(run.workers));
}

struct ComputeOptions {
  double step_s = 1;          // mean of a step at speed 1
  double update_s = 0;        // what follows the backward pass, at speed 1
  std::vector<double> speed;  // by worker; empty: all 1; one value: all
  StepLaw law = StepLaw::kConstant;
  double spread = 0.05;  // standard deviation of a step, relative to its mean
  std::string trace;     // CSV of seconds per step (train/step_durations.h)
};
CHOICE(ServerPlace, "on_workers apart", {kOnWorkers, kApart});

// Bandwidths are megabits a second, 0: no limit.
struct NetworkOptions {
  std::vector<double> latency_us;  // by worker; empty: 0; one value: all
  std::vector<double> mbit_s;      // by worker; empty: 0; one value: all
  double efficiency = 1;           // share of a bandwidth that payload gets
  double message_us = 0;           // time of a link per message
  double device_mbit_s = 0;        // copies between a device and its link
  int64_t group = 0;               // workers of an island; 0: no islands
  double group_latency_us = 0;     // within an island
  double group_mbit_s = 0;
  double uplink_mbit_s = 0;  // shared by an island's workers
  ServerPlace servers = ServerPlace::kOnWorkers;
  double server_mbit_s = 0;  // of a parameter server's machine
  int64_t ties_seed = 0;     // order of simultaneous events; 0: by rank
};

// Returns the worker's value of a list that has one for each worker, one for
// all, or none (`otherwise`).
inline double of_worker(const std::vector<double>& values,
                        int rank,
                        double otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : values[rank];
}

CHOICE(DelayLaw,
       "none uniform exponential pareto",
       {kNone, kUniform, kExponential, kPareto});

// Slow-downs of workers, in virtual time or, under MPI, as sleep.
struct StragglerOptions {
  std::vector<double> factor;  // of a step's computing; as compute.speed
  double delay_ms = 0;
  std::vector<double> delay_workers;
  int64_t delay_from = 0, delay_until = 0;  // of a worker's steps; 0: no end
  DelayLaw random = DelayLaw::kNone;
  double random_ms = 10;              // its mean
  double random_share = 1;            // of a worker's steps
  std::vector<std::string> episodes;  // config/episodes.h
};

CHOICE(FaultKind,
       "none kill stop hang nan flip",
       {kNone, kKill, kStop, kHang, kNan, kFlip});

// A fault to inject, for tests of a machine and of its jobs.
struct FaultOptions {
  FaultKind kind = FaultKind::kNone;
  int64_t rank = 0;
  Stage stage = Stage::kStep;
  int64_t step = 0;
};

struct Options {
  RunOptions run;
  ModelOptions model;
  DataOptions data;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  SyncOptions sync;
  EvalOptions eval;
  CheckpointOptions checkpoint;
  OutputOptions output;
  ComputeOptions compute;
  NetworkOptions network;
  StragglerOptions stragglers;
  FaultOptions faults;
};

}  // namespace syncopate
