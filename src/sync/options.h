// Options of synchronization: [sync], and a section for each scheme that has
// its own keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compress/compressor.h"
#include "optim/schedule.h"
#include "topology/topology.h"

namespace syncopate {

struct BspOptions {
  std::string batchnorm = "local";  // running statistics: local | averaged
  std::string clip = "reduced";     // optimizer.clip_norm: reduced | local
};

struct DsSyncOptions {
  std::vector<double> radices;  // digits of a rank with product N; empty: auto
  int64_t group = 0;            // N without equal digits: group size; 0: none
  std::string place = "before_forward";  // before_forward | after_update
  std::string batchnorm = "averaged";    // averaged | local
  std::string restart = "epoch";         // epoch | never: when phase 0 returns
  bool final_average = false;            // over all workers, at the end
};

// Shared by asp and ssp.
struct AspOptions {
  int64_t servers = 0;                // shards; 0: one per worker
  std::string compensation = "none";  // none | per_worker | per_key (DC-ASGD)
  double lambda = 0.04;               // strength of the compensation
  std::string batchnorm = "local";    // running statistics: local | shared
  bool record = false;                // write arrivals to order.h5
  std::string replay;                 // such a file; empty: none
};
struct SspOptions {
  int64_t bound = 3;  // clocks a worker may be ahead of the slowest
};

struct LocalSgdOptions {
  int64_t steps = 8;              // H: local steps between averages
  std::string outer = "average";  // average | momentum
  double outer_lr = 1, outer_momentum = 0.9;
  bool outer_nesterov = false;
  Length start{};  // bulk-synchronous before (post-local SGD)
  std::string batchnorm = "averaged";  // averaged | local
};

struct EasgdOptions {
  int64_t steps = 4;  // H: local steps between exchanges
  double beta = 0.9;  // rate of the centre; workers move by beta / N
};

struct SyncSwitchOptions {
  std::vector<std::string> order;   // schemes by phase; "1" bsp, "0" asp
  std::vector<double> fractions;    // of the run's work, per phase; sum 1
  std::vector<double> train_steps;  // or cumulative converted steps (spec 2.1)
  std::vector<std::string> overrides;  // "2:optimizer.lr=0.05"
  std::string lr_rule = "linear";      // linear | none
  std::string momentum_rule = "keep";  // keep zero scaled ramp_linear
                                       // ramp_doubling
  Length momentum_ramp{};
  std::string policy = "fixed";  // fixed | greedy | elastic
  int64_t window = 8;            // steps per throughput measurement
  double threshold = 1;          // standard deviations below the mean
  double min_slowdown = 0.1;     // as a fraction of the mean
  int64_t consecutive = 5;       // consecutive detections
  std::string plateau = "none";  // none | eval_loss | eval_metric
  int64_t patience = 5;          // evaluations without an improvement
  double min_change = 0;         // smallest change that counts as one
};

struct ChocoOptions {
  double gamma = 0.5;  // consensus step size: choco, deep_squeeze
};

struct DgcOptions {
  std::vector<double> warmup_ratios;  // fractions dropped, equally long each
  Length warmup{};  // all warmup_ratios together; 0: one epoch each
  bool mask_momentum = true;
  double clip = 0;  // per tensor and worker, times 1/sqrt(N); 0: none
};

struct PowerSgdOptions {
  int64_t rank = 2;
  bool warm_start = true;
};

struct EsyncOptions {
  double global_lr = 1;
  double epsilon_s = 0;  // seconds
  // In units of the worker's own step time, or auto; added to epsilon_s.
  std::string epsilon_steps = "auto";
  std::string query = "blocking";      // blocking | non_blocking
  std::string batchnorm = "averaged";  // averaged | local
};

struct SyncOptions {
  std::string scheme = "bsp";
  std::string transport = "auto";   // between GPUs: auto | mpi | nccl
  std::string collective = "ring";  // of collective_table()
  std::string wire = "fp32";        // fp32 | bf16
  double bucket_mb = 0;             // size of gradient messages; 0: auto
  std::string tables = "rows";      // embedding tables under bsp: rows | dense
  BspOptions bsp;
  DsSyncOptions ds_sync;
  AspOptions asp;
  SspOptions ssp;
  LocalSgdOptions local_sgd;
  EasgdOptions easgd;
  SyncSwitchOptions sync_switch;
  ChocoOptions choco;
  DgcOptions dgc;
  PowerSgdOptions power_sgd;
  EsyncOptions esync;
  CompressOptions compress;
  TopologyOptions topology;
};

}  // namespace syncopate
