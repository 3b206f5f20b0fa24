// Everything that a process builds from its input before any worker starts.
// Its workers share it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "ops/plan_table.h"
#include "problem/problem.h"
#include "problem/setup.h"
#include "run/session.h"
#include "sync/shared_sums.h"
#include "train/run_plan.h"
#include "train/saved_run.h"
#include "train/step_durations.h"

namespace syncopate {

// `options` are those of `input`, with lengths converted if length_workers
// differs from workers.
struct Engine : Setup {
  ParsedInput input;
  std::optional<SavedRun> saved;  // the run to resume or to start from
  int workers = 1;
  int length_workers = 1;  // lengths of `input` count steps of that many
  std::shared_ptr<Problem> problem;  // variants of an input share it
  RunPlan plan;
  std::unique_ptr<TablePlans> plans;  // run.plans on a GPU; else null
  std::optional<RecordedDurations> recorded_durations;  // compute.law = trace
  // If training needs more memory than this process may use: how much it needs
  // for what, and a batch size that fits. Empty if it fits.
  std::string memory_shortage;
  int64_t samples_a_step = 0;  // of all workers
  // By rank: samples per step, relative to their mean. Empty: alike.
  std::vector<double> batch_weights;
  // sync_switch: the options of each phase, with the phase's own sync.scheme.
  std::vector<Options> phases;
  bool has_passes = true;
  SharedSums shared_sums;  // of workers of one process on a GPU
  SharedStop shared_stop;  // of workers of one process
  // The current step of each worker, by its own count. Episodes of links that
  // are given in steps depend on it.
  std::vector<int64_t> steps_begun;

  // Whether a command uses the model of a checkpoint and trains nothing.
  bool uses_trained_model() const;
  // The largest batch whose gradients or statistics are computed; 0: there is
  // none, only evaluations.
  int64_t training_batch() const;
  // The rate of a worker's first step after warm-up: optimizer.lr, scaled by
  // optimizer.lr_scale according to the mean batch and its neighbours.
  double scaled_lr(const Options& of, int rank) const;
  // The highest rate of the run's schedule, for the log: "0.1", or "0.1 to 0.4"
  // if workers or phases differ; "" if the schedule has rates of its own.
  std::string rate_text() const;
  double mean_samples() const;  // of a worker per step
  Schedule schedule_of(const Options& of, int rank) const;
  // The divisor of the sum of a worker's sample gradients.
  double loss_samples(int rank) const;
  // The bf16 copies of weights that a replica keeps; null: none.
  const ShadowTable* copies() const;
  // Bytes of one worker's parameters, their copies, gradients, buffers and
  // optimizer state.
  int64_t replica_bytes() const;

  // The next evaluation, checkpoint, audit with a boundary, or end after
  // `worker_steps`, also in worker_steps.
  int64_t next_boundary(int64_t worker_steps) const;

  // Whether steps have forward and backward passes. Not in a simulation, nor
  // where only the work after them is measured.
  bool computes() const {
    return has_passes && device->kind() != DeviceKind::kNone;
  }
  // Whether a scheme sends only the rows of embedding tables that a batch
  // touches.
  bool sends_rows() const;
  // Returns an event after all work that the stream has been given so far.
  std::unique_ptr<Event> mark() const {
    std::unique_ptr<Event> event = device->make_event();
    event->record(*stream);
    return event;
  }
  // Whether training steps are recorded and replayed (CUDA graphs).
  bool records_steps() const {
    return device->kind() == DeviceKind::kCuda && options.run.cuda_graphs;
  }
};

// What messages cost in virtual time, from [network] and [stragglers]. The
// engine must outlive the result: links may slow down in certain steps.
NetworkCost network_cost_of(const Engine& engine);

enum class EngineUse { kTrain, kMeasureUpdate, kSimulate };

// Parses and checks the input, loads the data and builds the rest. Every
// failure is an Error with one line per mistake; sends no messages.
// kMeasureUpdate plans no activations. kSimulate uses the none device, so that
// nothing is computed. `saved` is the run to resume or to start from.
std::unique_ptr<Engine> build_engine(Session& session,
                                     const std::string& input_path,
                                     const std::vector<std::string>& overrides,
                                     EngineUse use = EngineUse::kTrain,
                                     const std::optional<SavedRun>& saved = {});

// Returns the engine of `base`'s input with other values of some keys
// ("--section.key=value"). Keys of the input that the variant does not use are
// allowed. `own` must not contain keys of [data], whose samples the variant
// shares with `base`.
std::unique_ptr<Engine> build_variant(Session& session,
                                      const Engine& base,
                                      const std::vector<std::string>& own,
                                      EngineUse use);

}  // namespace syncopate
