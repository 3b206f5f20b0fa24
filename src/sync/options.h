// Options of synchronization: [sync], and a section for each scheme that has
// its own keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/choice.h"
#include "comm/collectives.h"
#include "compress/compressor.h"
#include "optim/schedule.h"
#include "topology/topology.h"

namespace syncopate {

// Running statistics of BatchNorm.
CHOICE(Statistics, "averaged local", {kAveraged, kLocal});
CHOICE(ServerStatistics, "local shared averaged", {kLocal, kShared, kAveraged});

CHOICE(ClipPlace, "reduced local", {kReduced, kLocal});

struct BspOptions {
  Statistics batchnorm = Statistics::kLocal;
  ClipPlace clip = ClipPlace::kReduced;  // what optimizer.clip_norm bounds
};

CHOICE(Averaging,
       "before_forward after_update",
       {kBeforeForward, kAfterUpdate});
CHOICE(PhaseRestart, "epoch never", {kEpoch, kNever});

struct DsSyncOptions {
  std::vector<double> radices;  // digits of a rank with product N; empty: auto
  int64_t group = 0;            // N without equal digits: group size; 0: none
  Averaging place = Averaging::kBeforeForward;
  Statistics batchnorm = Statistics::kAveraged;
  PhaseRestart restart = PhaseRestart::kEpoch;  // when phase 0 returns
  bool final_average = false;  // over all workers, after the last step
};

// Delay compensation (DC-ASGD).
CHOICE(Compensation, "none per_worker per_key", {kNone, kPerWorker, kPerKey});

CHOICE(Pulling, "after_push before_step", {kAfterPush, kBeforeStep});

// Shared by asp and ssp.
struct AspOptions {
  int64_t servers = 0;  // shards; 0: one per worker
  Compensation compensation = Compensation::kNone;
  double lambda = 0.04;  // strength of the compensation
  Pulling pull = Pulling::kAfterPush;
  ServerStatistics batchnorm = ServerStatistics::kLocal;
  bool record = false;  // write arrivals to order.h5
  std::string replay;   // such a file; empty: none
};
struct SspOptions {
  int64_t bound = 3;  // clocks a worker may be ahead of the slowest
};

CHOICE(OuterStep, "average momentum", {kAverage, kMomentum});

struct LocalSgdOptions {
  int64_t steps = 8;  // H: local steps between averages
  OuterStep outer = OuterStep::kAverage;
  double outer_lr = 1, outer_momentum = 0.9;
  bool outer_nesterov = false;
  Length start{};  // bulk-synchronous before (post-local SGD)
  Statistics batchnorm = Statistics::kAveraged;
};

struct EasgdOptions {
  int64_t steps = 4;  // H: local steps between exchanges
  double beta = 0.9;  // rate of the centre; workers move by beta / N
};

CHOICE(LrRule, "linear t2t none", {kLinear, kT2t, kNone});
CHOICE(MomentumRule,
       "keep zero scaled ramp_linear ramp_doubling",
       {kKeep, kZero, kScaled, kRampLinear, kRampDoubling});
CHOICE(SwitchPolicy, "fixed greedy elastic", {kFixed, kGreedy, kElastic});
CHOICE(Plateau, "none eval_loss eval_metric", {kNone, kEvalLoss, kEvalMetric});

struct SyncSwitchOptions {
  std::vector<std::string> order;      // schemes by phase; "1" bsp, "0" asp
  std::vector<double> fractions;       // of the run's work, per phase; sum 1
  std::vector<double> train_steps;     // or cumulative, as published (phases.h)
  std::vector<std::string> overrides;  // "2:optimizer.lr=0.05"
  LrRule lr_rule = LrRule::kLinear;
  MomentumRule momentum_rule = MomentumRule::kKeep;
  Length momentum_ramp{};
  SwitchPolicy policy = SwitchPolicy::kFixed;
  int64_t window = 8;         // steps per throughput measurement
  double threshold = 1;       // standard deviations below the mean
  double min_slowdown = 0.1;  // as a fraction of the mean
  int64_t consecutive = 5;    // consecutive detections
  Plateau plateau = Plateau::kNone;
  int64_t patience = 5;   // evaluations without an improvement
  double min_change = 0;  // smallest change that counts as one
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

CHOICE(Query, "blocking non_blocking", {kBlocking, kNonBlocking});

struct EsyncOptions {
  double global_lr = 1;
  double epsilon_s = 0;  // seconds
  // In units of the worker's own step time, or auto; added to epsilon_s.
  std::string epsilon_steps = "auto";
  Query query = Query::kBlocking;
  Statistics batchnorm = Statistics::kAveraged;
};

CHOICE(Transport, "auto mpi nccl", {kAuto, kMpi, kNccl});  // between GPUs
CHOICE(TableTraffic, "rows dense", {kRows, kDense});       // under bsp

struct SyncOptions {
  std::string scheme = "bsp";
  Transport transport = Transport::kAuto;
  CollectiveAlgorithm collective = CollectiveAlgorithm::kRing;
  Wire wire = Wire::kF32;
  double bucket_mb = 0;  // size of gradient messages; 0: auto
  TableTraffic tables = TableTraffic::kRows;
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
