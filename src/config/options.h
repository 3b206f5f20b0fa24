// The resolved input of a run: one struct a section, plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/options.h"
#include "models/registry.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "sync/scheme.h"

namespace syncopate {

struct RunOptions {
  std::string name = "{scheme}-seed{seed}";  // may hold {scheme} {seed} {job}
  std::string directory = "runs";
  int64_t seed = 1;
  double epochs = 0;  // epochs and steps both given: what ends first
  int64_t steps = 0;
  Length stop_at;                  // stop here (exit 0); 0: at the end
  int64_t workers = 0;             // 0: auto
  std::string device = "auto";     // auto cpu cuda
  int64_t threads = 0;             // of a worker; 0: auto
  std::string precision = "fp32";  // fp32 bf16
  bool deterministic = true;       // on a GPU; a CPU always is
  bool cuda_graphs = true;
  Length log_every{50, false};
  double time_limit_s = 0;  // checkpoint and exit 75 before it; 0: none
  bool watchdog = true;
  double step_timeout_s = 0;  // 0: from the median
  double io_timeout_s = 600;
  std::string on_nonfinite = "stop";  // stop skip
  Length audit{100, false};           // 0: never
};

struct EvalOptions {
  Length every{1, true};          // and at the end; 0: at the end only
  std::string model = "average";  // each average rank0 each_and_average
                                  // centre
  std::string on = "test";        // test validation
  int64_t batch = 250;
  // BatchNorm's running statistics as they are, or recomputed over so many
  // training batches before each evaluation.
  std::string batchnorm = "running";  // running recomputed
  int64_t recompute_batches = 20;
  // Of answers to questions.
  int64_t n_best = 20;             // candidates that are kept
  int64_t max_answer_length = 30;  // tokens
};

struct CheckpointOptions {
  Length every{0, false};  // 0: only at the end
  int64_t keep = 2;
  std::string resume = "auto";  // auto none PATH
};

// Virtual time of the in-process world.
struct ComputeOptions {
  double step_s = 1;          // cost of a step at speed 1
  std::vector<double> speed;  // by worker; empty: all 1; one value: all
};
struct NetworkOptions {
  double latency_us = 0;
  double mbit_s = 0;  // 0: no limit
};

// What makes workers unlike: in virtual time, or slept under MPI.
struct StragglerOptions {
  std::vector<double> factor;  // of a step's computing; as compute.speed
  double delay_ms = 0;
  std::vector<double> delay_workers;
  int64_t delay_from = 0, delay_until = 0;  // of a worker's steps; 0: no end
  std::string random = "none";              // none uniform exponential pareto
  double random_ms = 10;                    // its mean
  double random_share = 1;                  // of a worker's steps
  std::vector<std::string> episodes;        // config/episodes.h
};

// A fault to try, for tests of a machine and of its jobs.
struct FaultOptions {
  std::string kind = "none";  // none kill stop hang nan flip
  int64_t rank = 0;
  std::string stage = "step";  // as name_of(Stage)
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
  ComputeOptions compute;
  NetworkOptions network;
  StragglerOptions stragglers;
  FaultOptions faults;
};

}  // namespace syncopate
