// A checkpoint of N workers as M others would have it.
//
// What all share is as it was. Of what each worker had for itself:
//
//   model, residuals, errors        the mean over the workers
//   momentum, m, v                  likewise; a server's slices put together
//   steps, pushes                   worker_steps / M; updates of a shard: all
//   totals of the recorder          those of all, at rank 0
//   virtual clock                   the latest
//   copies of neighbours, rounds    what the scheme has when it is entered
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace syncopate {

// Batches that each of M workers has seen where `before` says what each of N
// had: the same part of an epoch, by samples.
int64_t resized_position(const std::vector<int64_t>& before,
                         int64_t batches_per_epoch_before,
                         int64_t workers,
                         int64_t batches_per_epoch);

// Loads what is visited. Values for which there is no rule stay as they are.
// `found` must have been verified. Errors as load_checkpoint's.
class ResizedState : public StateVisitor {
 public:
  ResizedState(const FoundCheckpoint& found, int rank, int workers);
  ~ResizedState() override;

  // Steps of each worker so far; worker_steps of all without the last few
  // where M does not divide them.
  int64_t steps() const { return steps_; }
  // A number that every worker had, by worker; empty: none had it.
  std::vector<int64_t> of_workers(const std::string& name);

  // From here on, model and optimizer are passed by: they are loaded.
  void has_model() { has_model_ = true; }
  void visit(Owner owner, std::string_view name, std::span<float> v) override;
  void visit(Owner owner, std::string_view name, std::span<int64_t> v) override;
  void visit(Owner owner, std::string_view name, std::span<double> v) override;
  void visit_slice(Owner owner,
                   std::string_view name,
                   const ParameterTable& table,
                   int64_t begin,
                   std::span<float> slice) override;

 private:
  struct Files;
  bool read_flat(const std::string& name, std::span<float> slice);
  void read_tensor(const std::string& name, std::span<float> v);

  std::unique_ptr<Files> files_;
  int rank_;
  int64_t steps_, worker_steps_;
  bool has_model_ = false;
};

}  // namespace syncopate
