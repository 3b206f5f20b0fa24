#include "train/tally.h"

#include <span>
#include <vector>

#include "tensor/visit_numbers.h"

namespace syncopate {
namespace {

constexpr int kPayload = static_cast<int>(Traffic::kPayload);
constexpr int kControl = static_cast<int>(Traffic::kControl);

// Returns what was sent between two counts.
TrafficCounters since(TrafficCounters now, const TrafficCounters& base) {
  for (int kind = 0; kind < kNumTrafficKinds; ++kind) {
    now.bytes_sent[kind] -= base.bytes_sent[kind];
    now.messages_sent[kind] -= base.messages_sent[kind];
  }
  return now;
}

}  // namespace

Tally::Tally(Endpoint& endpoint, size_t num_metrics) : endpoint_(endpoint) {
  sums_.values.assign(num_metrics, 0.0);
}

void Tally::add_times(double compute_s, const SyncTimes& times) {
  compute_s_ += compute_s;
  times_.add(times);
}

void Tally::uncounted(const std::function<void()>& action) {
  const TrafficCounters before = endpoint_.traffic();
  frozen_ = before;
  action();
  frozen_.reset();
  traffic_at_row_.add(since(endpoint_.traffic(), before));
}

void Tally::forget_earlier_process() {
  earlier_compute_s_ = -compute_s_;
  earlier_times_ = {-times_.exposed_s, -times_.overlapped_s, -times_.wait_s};
  earlier_samples_ = -sums_.samples;
}

Tally::Row Tally::row_of(const TrafficCounters& now) const {
  const TrafficCounters sent = since(now, traffic_at_row_);
  return {.sums = sums_,
          .compute_s = compute_s_,
          .times = times_,
          .bytes = static_cast<double>(sent.bytes_sent[kPayload]),
          .messages = static_cast<double>(sent.messages_sent[kPayload]),
          .control_bytes = static_cast<double>(sent.bytes_sent[kControl])};
}

Tally::Row Tally::end_row() {
  // Read once: a service may send meanwhile.
  const TrafficCounters now = endpoint_.traffic();
  Row row = row_of(now);
  traffic_at_row_ = now;
  earlier_compute_s_ += compute_s_;
  earlier_times_.add(times_);
  earlier_samples_ += sums_.samples;
  compute_s_ = 0;
  times_ = {};
  sums_ = {std::vector<double>(sums_.values.size(), 0.0), 0.0};
  return row;
}

Tally::SinceStart Tally::since_start() const {
  return {.compute_s = earlier_compute_s_ + compute_s_,
          .exposed_s = earlier_times_.exposed_s + times_.exposed_s,
          .wait_s = earlier_times_.wait_s + times_.wait_s,
          .overlapped_s = earlier_times_.overlapped_s + times_.overlapped_s,
          .data_wait_s = data_wait_s_,
          .samples = earlier_samples_ + sums_.samples};
}

void Tally::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "since_row/metric_sums",
                std::span<double>(sums_.values));
  visit_number(visitor, Owner::kWorker, "since_row/samples", sums_.samples);
  // Virtual seconds are a part of the state, wall seconds are not.
  double none = 0;
  if (endpoint_.has_virtual_time())
    visit_together(
        visitor, Owner::kWorker, "since_row/virtual_seconds",
        {&compute_s_, &times_.exposed_s, &times_.overlapped_s, &times_.wait_s});
  else
    visit_together(visitor, Owner::kWorker, "since_row/virtual_seconds",
                   {&none, &none, &none, &none});
  // Stored as differences, because a resumed process starts counting at zero.
  const TrafficCounters now = frozen_.value_or(endpoint_.traffic());
  TrafficCounters sent = since(now, traffic_at_row_);
  visitor.visit(Owner::kWorker, "since_row/bytes_sent",
                std::span<int64_t>(sent.bytes_sent));
  visitor.visit(Owner::kWorker, "since_row/messages_sent",
                std::span<int64_t>(sent.messages_sent));
  traffic_at_row_ = since(now, sent);
  visit_number(visitor, Owner::kWorker, "since_start/skipped_steps",
               skipped_steps_);
}

}  // namespace syncopate
