// Times the trainer's steps, without result rows, evaluation and checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "run/session.h"
#include "train/device_transport.h"
#include "train/engine.h"
#include "train/worker_step.h"

namespace syncopate {

// One worker's times, with one value per step, except for step_s: on a GPU the
// host runs ahead, so it is the mean over several steps timed together. The
// others are device times: obtaining batches, the forward pass with the loss,
// the backward pass, and the rest of the step until the update is complete.
struct StepTimes {
  std::vector<double> data_s, forward_s, backward_s, update_s, step_s;
};

// Stops once `least` steps of worker 0 are timed and `least_s` seconds have
// passed, or once `most` are timed, or `most_s` seconds after the untimed
// steps, `warmup`, that come first; then there may be no timed step.
struct StepLimits {
  int64_t warmup = 3, least = 20, most = 200;
  double least_s = 10;
  double most_s = std::numeric_limits<double>::infinity();
};

class StepBench final : private StepListener {
 public:
  // `also`, which may be null, receives the events of all steps, including
  // untimed ones.
  StepBench(Session& session,
            Engine& engine,
            Endpoint& endpoint,
            StepListener* also = nullptr,
            const StepLimits& limits = {});
  // Takes steps within the limits, but stops also if worker 0 has sat out as
  // many idle steps of the scheme as it could have timed. Collective; call
  // once.
  StepTimes run();

 private:
  // The events of one step, kept until the device has reached them.
  struct Part {
    std::unique_ptr<Event> has_batch, has_gradients;
    PendingSums sums;  // at the end of forward
  };
  struct Marks {
    std::unique_ptr<Event> begin, end;
    std::vector<Part> parts;  // by accumulated batch
  };
  void step_begins() override;
  void batch_arrives() override;
  void backward_ends(const PendingSums& sums) override;
  void step_ends() override;
  void make_first_values();
  StepPlan next();
  void note(double seconds);

  Engine& engine_;
  StepListener* also_;
  const StepLimits limits_;
  Endpoint& endpoint_;
  DeviceTransport transport_;
  WorkerStep step_;
  std::vector<Marks> marks_;  // of steps that are timed together
  double started_s_ = 0;
  std::optional<double> warm_s_;  // when the untimed steps were over
  int64_t followed_ = 0;          // steps of others
  StepTimes times_;
  TaskGuard task_guard_{endpoint_, transport_.collectives.get()};
};

}  // namespace syncopate
