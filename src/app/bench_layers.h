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

// Records events around each op of the first few steps and leaves the following
// steps undisturbed. On a GPU, an op's time includes the launch of its kernels
// if the host is not running ahead.
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
  // Shapes in the order of the step's ops. All steps must call the same ops.
  std::vector<std::string> shapes() const;

  Engine& engine_;
  int64_t steps_ = 0;       // including those of the warm-up
  std::vector<Step> kept_;  // the steps whose ops were timed
};

}  // namespace syncopate
