// A training step as recorded device work, in segments between which the host
// acts (starts a bucket's communication, fetches the loss).
//
// The first step of a kind runs unrecorded and creates memory and plans; the
// second is recorded while it runs; all later ones replay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "device/device.h"

namespace syncopate {

// Everything that recorded work depends on: addresses, sizes, constants.
using StepKey = std::array<uint64_t, 11>;

class StepGraphs {
 public:
  // A place in the step. The step ends with place 0, after which it submits no
  // work to the stream.
  using Place = int64_t;
  using AtPlace = std::function<void(Place)>;

  // Runs `step`, which submits work to `stream` and calls its argument at each
  // place. `at_place` is then called on the host, in the same order, once the
  // work before that place has been submitted. Recorded segments end at places
  // for which `ends_segment` holds, and at place 0.
  void run(Stream& stream,
           const StepKey& key,
           const std::function<void(const AtPlace&)>& step,
           const std::function<bool(Place)>& ends_segment,
           const AtPlace& at_place);

 private:
  struct Segment {
    std::unique_ptr<Graph> graph;
    std::vector<Place> places;
  };
  struct Recording {
    bool has_run = false;
    std::vector<Segment> segments;
  };
  void record(Stream& stream,
              Recording& recording,
              const std::function<void(const AtPlace&)>& step,
              const std::function<bool(Place)>& ends_segment,
              const AtPlace& at_place);

  std::map<StepKey, Recording> recordings_;
};

}  // namespace syncopate
