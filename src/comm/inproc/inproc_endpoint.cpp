// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_endpoint.h"

#include "base/check.h"

namespace syncopate::inproc {

InprocRun& InprocEndpoint::checked_run() const {
  CHECK_MSG(&run_.scheduler().current() == &strand_,
            "the endpoint of {} is used by {}", strand_.name,
            run_.scheduler().current().name);
  if (ahead_ > strand_.time) run_.scheduler().sleep_until(ahead_);
  return run_;
}

void InprocEndpoint::advance(Time seconds) {
  CHECK_MSG(seconds >= 0, "a clock cannot go back by {} s", -seconds);
  Scheduler& scheduler = checked_run().scheduler();
  scheduler.sleep_until(strand_.time + seconds);
}

void InprocEndpoint::advance_ahead(Time seconds) {
  CHECK(seconds >= 0);
  ahead_ = now() + seconds;
}

void InprocEndpoint::set_clock(Time now) {
  checked_run();
  ahead_ = now > strand_.time ? now : 0;
  strand_.time = std::min(strand_.time, now);
}

bool InprocEndpoint::done(const Task& task) const {
  checked_run();
  const auto& state = static_cast<const InprocTask&>(*task);
  return state.has_ended && state.ended_at <= strand_.time;
}

}  // namespace syncopate::inproc
