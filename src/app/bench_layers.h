// Times each op of training steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "ops/op_listener.h"
#include "train/engine.h"
#include "train/worker_step.h"

namespace syncopate {

// Puts an event around each op of some steps and leaves those that follow
// undisturbed. On a GPU an op's time includes that of starting its kernels
// where the host is not ahead.
class LayerBench final : public StepListener, private OpListener {
 public:
  explicit LayerBench(Engine& engine) : engine_(engine) {}
  void step_begins() override;
  void batch_arrives() override {}
  void backward_ends(const PendingSums&) override {}
  void step_ends() override;

  // Logs a table of ops by time; ops of the same shape and engine share a line.
  // "*" in a shape: it differs from step to step. `step_s`: the seconds of an
  // undisturbed step.
  void report(Log& log, double step_s) const;

 private:
  struct Timed {
    OpCall call;
    std::string engine;
    std::unique_ptr<Event> begin, end;
    double seconds() const { return end->seconds_since(*begin); }
  };
  using Step = std::vector<Timed>;

  void op_begins(const OpCall& call) override;
  void op_ends(std::string_view engine) override;
  std::unique_ptr<Event> mark();
  // By place in a step. All steps call the same ops.
  std::vector<std::string> shapes() const;

  Engine& engine_;
  int64_t steps_ = 0;       // including those of the warm-up
  std::vector<Step> kept_;  // the steps whose ops were timed
};

}  // namespace syncopate
