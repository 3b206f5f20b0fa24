// Presents a checkpoint of N workers to a run with M workers.
//
// Shared state is unchanged. State that each worker had for itself becomes:
//
//   model, residuals, errors, ema,
//   esync's replicas in a round     the mean over the workers
//   momentum, m, v                  likewise; a server's slices are joined
//   steps, pushes                   worker_steps / M; a shard's updates: all
//   updates of ema                  the most of a worker
//   seconds since the last row      the mean over the workers
//   other figures since then, and
//   totals of the recorder          the sum over all, at rank 0
//   virtual clock                   the latest
//   copies of neighbours, rounds    as when the scheme is entered
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace syncopate {

// Returns how many batches each of M workers has seen, given what each of N had
// seen (`before`): the same part of an epoch, in samples, rounded down to whole
// steps.
int64_t resized_position(const std::vector<int64_t>& before,
                         int64_t batches_per_epoch_before,
                         int64_t workers,
                         int64_t batches_per_epoch,
                         int64_t batches_per_step = 1);

// Loads what is visited. Values without a rule are unchanged. `found` must have
// been verified. Errors: as for load_checkpoint.
class ResizedState : public StateVisitor {
 public:
  ResizedState(const FoundCheckpoint& found, int rank, int workers);
  ~ResizedState() override;

  // Steps of each worker so far: worker_steps / M, dropping a remainder.
  int64_t steps() const { return steps_; }
  // Returns a number that every worker stored, by worker; empty if none did.
  std::vector<int64_t> of_workers(const std::string& name);

  // From here on skips model and optimizer, which are loaded already.
  void has_model() { has_model_ = true; }
  void visit(Owner, std::string_view name, Values values) override {
    std::visit([&](auto v) { load(std::string(name), v); }, values);
  }
  void visit_slice(Owner owner,
                   std::string_view name,
                   const ParameterTable& table,
                   int64_t begin,
                   std::span<float> slice) override;

 private:
  struct Files;
  // Adds what all workers had counted.
  template <typename Number>
  void add_of_all(const std::string& name, std::span<Number> v);
  void load(const std::string& name, std::span<float> v);
  void load(const std::string& name, std::span<int64_t> v);
  void load(const std::string& name, std::span<double> v);
  bool read_flat(const std::string& name, std::span<float> slice);
  void read_tensor(const std::string& name, std::span<float> v);

  std::unique_ptr<Files> files_;
  int rank_;
  int64_t steps_, worker_steps_;
  bool has_model_ = false;
};

}  // namespace syncopate
