// What a process builds from its input before any worker starts, shared by
// all its workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "models/registry.h"
#include "problem/problem.h"
#include "problem/setup.h"
#include "run/session.h"
#include "train/saved_run.h"

namespace syncopate {

// All lengths in steps (worker_steps / N).
struct RunPlan {
  int64_t batches_per_epoch = 0;
  double steps_per_epoch = 0;
  int64_t total_steps = 0;  // steps and epochs both given: what ends first
  int64_t stop_at = 0;      // <= total_steps
  double horizon = 0;
  int64_t log_every = 0, eval_every = 0, checkpoint_every = 0;  // 0: at the end
  int64_t audit_every = 0;                                      // 0: never
};

// `options` are those of `input`; where length_workers are not workers, with
// lengths converted.
struct Engine : Setup {
  ParsedInput input;
  std::optional<SavedRun> saved;  // what training goes on or starts from
  int workers = 1;
  int length_workers = 1;  // whose steps the lengths of `input` are in
  std::unique_ptr<Problem> problem;
  RunPlan plan;
  // Training would need more memory than this process may take here: what and
  // how much, and a batch that fits. Empty: it fits.
  std::string memory_shortage;
  // Of sync_switch: what each phase runs by, sync.scheme its own.
  std::vector<Options> phases;
  // By worker, the step of its own that it is at: what episodes of links that
  // are counted in steps go by.
  std::vector<int64_t> steps_begun;

  // The rate of a worker's first step after warm-up: optimizer.lr after
  // optimizer.lr_scale, by its batch and its neighbours.
  double scaled_lr(const Options& of, int rank) const;
  Schedule schedule_of(const Options& of, int rank) const;
  // A worker's samples of a step over the mean of all workers'.
  double batch_weight(int rank) const;
  // What the sum of its sample gradients is divided by.
  double loss_samples(int rank) const;
  int64_t samples_a_step() const;  // of all workers
  // Of one worker: parameters, gradients, buffers and the optimizer's state.
  int64_t replica_bytes() const;

  // Whether training steps are recorded and replayed (CUDA graphs).
  bool records_steps() const {
    return device->kind() == DeviceKind::kCuda && options.run.cuda_graphs;
  }
};

enum class Memory { kPlanned, kCountedOnly };

// Parses, checks, loads, builds. Every failure is an Error with one line a
// mistake; nothing is sent. kCountedOnly leaves activations unplanned. `saved`:
// what the run goes on or starts from; null: from nothing.
std::unique_ptr<Engine> build_engine(Session& session,
                                     const std::string& input_path,
                                     const std::vector<std::string>& overrides,
                                     Memory memory = Memory::kPlanned,
                                     const SavedRun* saved = nullptr);

}  // namespace syncopate
