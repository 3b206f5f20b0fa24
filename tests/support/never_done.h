// An event that never happens, for tests of limits on waiting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.h"

namespace syncopate {

class NeverDone : public Event {
  void record(Stream&) override {}
  void wait_on(Stream&) override {}
  bool is_done() override { return false; }
  void synchronize() override {}
  double seconds_since(const Event&) const override { return 0; }
};

}  // namespace syncopate
