// Counts what one worker does: since the last row of results and since the
// start of the run, both of which a resumed run continues, and since this start
// of the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "comm/endpoint.h"
#include "models/pending_sums.h"
#include "sync/scheme.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class Tally {
 public:
  // Since the last row.
  struct Row {
    MetricSums sums;
    double compute_s;
    SyncTimes times;
    double bytes, messages, control_bytes;
  };
  // Seconds as in /comm.
  struct SinceStart {  // of this process
    double compute_s, exposed_s, wait_s, overlapped_s, data_wait_s, samples;
  };

  Tally(Endpoint& endpoint, size_t num_metrics);

  // Adds the seconds (virtual in one process) of forward and backward passes
  // and of communication.
  void add_times(double compute_s, const SyncTimes& times);
  // The same where only communication had to wait for the device's passes.
  void add_times(const SyncTimes& times) { add_times(times.device_s, times); }
  // Adds the sums of a step. Call in the order of steps, before the row that
  // contains the step ends.
  void add_metrics(const MetricSums& sums) { sums_.add(sums); }
  // Adds steps whose gradient was discarded (run.on_nonfinite = skip).
  void add_skipped_steps(int64_t steps) { skipped_steps_ += steps; }
  void add_data_wait(double seconds) { data_wait_s_ += seconds; }

  // Messages sent by `action` count in no row: a run that wrote one checkpoint
  // more must not differ in its columns.
  void uncounted(const std::function<void()>& action);
  // On a fresh start: resets the counters of traffic.
  void forget_traffic() { traffic_at_row_ = endpoint_.traffic(); }
  // On resume: what was counted since the last row belongs to another process,
  // not to this start.
  void forget_earlier_process();

  Row row() const { return row_of(endpoint_.traffic()); }
  Row end_row();  // returns it, and begins the next one
  SinceStart since_start() const;
  // Since the last row.
  const MetricSums& sums() const { return sums_; }
  int64_t skipped_steps() const { return skipped_steps_; }  // in the whole run

  void visit_state(StateVisitor& visitor);

 private:
  Row row_of(const TrafficCounters& now) const;

  Endpoint& endpoint_;
  // Since the last row.
  MetricSums sums_;
  SyncTimes times_;
  double compute_s_ = 0;
  TrafficCounters traffic_at_row_;
  std::optional<TrafficCounters> frozen_;  // while nothing is to be counted
  // Since this start, up to the last row.
  SyncTimes earlier_times_;
  double earlier_compute_s_ = 0, earlier_samples_ = 0;
  double data_wait_s_ = 0;     // since this start
  int64_t skipped_steps_ = 0;  // since the start of the run
};

}  // namespace syncopate
