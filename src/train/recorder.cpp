#include "train/recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

constexpr int kPayload = static_cast<int>(Traffic::kPayload);
constexpr int kControl = static_cast<int>(Traffic::kControl);

bool decays(const Options& options) {
  return options.optimizer.weight_decay > 0;
}

// Returns what was sent between two counts.
TrafficCounters since(TrafficCounters now, const TrafficCounters& base) {
  for (int kind = 0; kind < kNumTrafficKinds; ++kind) {
    now.bytes_sent[kind] -= base.bytes_sent[kind];
    now.messages_sent[kind] -= base.messages_sent[kind];
  }
  return now;
}

// Visits separate numbers as one range.
void visit_together(StateVisitor& visitor,
                    std::string_view name,
                    std::initializer_list<double*> numbers) {
  std::vector<double> values;
  for (const double* number : numbers) values.push_back(*number);
  visitor.visit(Owner::kWorker, name, std::span<double>(values));
  for (size_t i = 0; i < values.size(); ++i) *numbers.begin()[i] = values[i];
}

}  // namespace

Recorder::Recorder(Session& session,
                   const Engine& engine,
                   Endpoint& endpoint,
                   Scheme& scheme,
                   const Replica& replica,
                   Results* results)
    : session_(session),
      engine_(engine),
      endpoint_(endpoint),
      scheme_(scheme),
      replica_(replica),
      results_(results),
      is_free_running_(
          any_scheme(engine.options.sync,
                     [](const auto& info) { return info.is_free_running; })),
      metrics_(engine.model->metrics()),
      eval_metrics_(engine.problem->metrics()),
      series_(scheme.series()),
      target_(engine) {
  sums_.values.assign(metrics_.size(), 0.0);
  if (!results_) return;
  has_decay_term_ =
      decays(engine.options) ||
      std::any_of(engine.phases.begin(), engine.phases.end(), decays);
  declare_tables();
  declare_series();
}

void Recorder::metrics(const MetricSums& sums) {
  sums_.add(sums);
}

void Recorder::step_done(double compute_s, const SyncTimes& times) {
  compute_s_ += compute_s;
  times_.add(times);
}

void Recorder::start_clock() {
  clock_started_s_ = monotonic_s();
}

double Recorder::running_time_s() const {
  return clock_started_s_ > 0 ? time_s_ + monotonic_s() - clock_started_s_
                              : time_s_;
}

void Recorder::stop_clock() {
  time_s_ = running_time_s();
  clock_started_s_ = 0;
  // Needed on resume, because rows state the clock only at their own steps.
  if (results_)
    results_->provenance("training_ms",
                         static_cast<int64_t>(std::llround(1e3 * time_s_)));
}

void Recorder::forget_earlier_process(int64_t worker_steps) {
  run_compute_s_ = -compute_s_;
  run_times_ = {-times_.exposed_s, -times_.overlapped_s, -times_.wait_s};
  run_samples_ = -sums_.samples;
  const int64_t every = engine_.plan.log_every * endpoint_.size();
  rows_closed_ = every > 0 ? worker_steps / every : 0;
  last_row_ended_ = rows_closed_ * every;
}

void Recorder::resume_clock(int64_t step) {
  last_log_step_ = step;
  time_s_ = 1e-3 * static_cast<double>(
                       results_->provenance_integer("training_ms").value_or(0));
  resumed_time_s_ = last_row_time_s_ = time_s_;
}

double Recorder::virtual_s() const {
  return endpoint_.has_virtual_time()
             ? endpoint_.now()
             : std::numeric_limits<double>::quiet_NaN();
}

void Recorder::forget_traffic() {
  base_ = endpoint_.traffic();
}

void Recorder::uncounted(const std::function<void()>& action) {
  const TrafficCounters before = endpoint_.traffic();
  frozen_ = before;
  action();
  frozen_.reset();
  base_.add(since(endpoint_.traffic(), before));
}

double Recorder::epoch(const Position& at) const {
  return static_cast<double>(at.step) / engine_.plan.steps_per_epoch;
}

std::vector<double> Recorder::position_columns(const Position& at) const {
  return {static_cast<double>(at.step), static_cast<double>(at.worker_steps),
          epoch(at)};
}

size_t Recorder::num_figures() const {
  size_t figures = metrics_.size() + kNumFigures;
  for (const SeriesInfo& info : series_) figures += info.width;
  return figures + (is_free_running_ ? 1 : 0);
}

bool Recorder::is_row_over(int64_t worker_steps) const {
  const int64_t every = engine_.plan.log_every * endpoint_.size();
  return every > 0 && worker_steps >= (rows_closed_ + 1) * every;
}

void Recorder::close_rows(int64_t worker_steps, double rate) {
  while (is_row_over(worker_steps)) {
    ++rows_closed_;
    const int64_t step = rows_closed_ * engine_.plan.log_every;
    close_row({step, step * endpoint_.size(), rate});
  }
}

void Recorder::close_last_row(const Position& at) {
  if (at.worker_steps > last_row_ended_) close_row(at);
}

void Recorder::close_row(const Position& at) {
  constexpr size_t kMostOpen = 4;  // rank 0 may be slow to receive
  while (endpoint_.rank() != 0 && open_rows_.size() >= kMostOpen) {
    endpoint_.join(open_rows_.front().task);
    open_rows_.pop_front();
  }
  OpenRow& row = open_rows_.emplace_back();
  row.at = at;
  row.time_s = running_time_s();
  const TrafficCounters sent = endpoint_.traffic();
  const EndFigures now = end_figures(sent);
  row.mine = sums_.values;
  row.mine.insert(row.mine.end(),
                  {sums_.samples, compute_s_, times_.exposed_s,
                   times_.overlapped_s, times_.wait_s, now.row_bytes,
                   now.row_messages, now.row_control_bytes, virtual_s()});
  const std::vector<double> series = scheme_.take_series();
  row.mine.insert(row.mine.end(), series.begin(), series.end());
  if (is_free_running_) row.mine.push_back(now.steps);
  CHECK(row.mine.size() == num_figures());
  if (has_decay_term_)
    row.decay_term.emplace(*engine_.context, scheme_.optimizer_options(),
                           engine_.model->parameters(), replica_.parameters);
  base_ = sent;
  run_compute_s_ += compute_s_;
  run_times_.add(times_);
  run_samples_ += sums_.samples;
  compute_s_ = 0;
  times_ = {};
  if (sums_.samples > 0) closed_loss_ = sums_.values[0] / sums_.samples;
  sums_ = {std::vector<double>(metrics_.size(), 0.0), 0.0};
  last_row_ended_ = at.worker_steps;

  if (endpoint_.rank() == 0)
    row.others.assign(endpoint_.size() - 1,
                      std::vector<double>(row.mine.size()));
  row.task = endpoint_.start("row", [&row](Endpoint& endpoint) {
    if (endpoint.rank() != 0) {
      const std::span<const double> values = row.mine;
      endpoint.wait(endpoint.isend(bytes_view(values), 0, tags::kResults,
                                   Traffic::kControl));
      return;
    }
    std::vector<Request> arrivals;
    for (int rank = 1; rank < endpoint.size(); ++rank)
      arrivals.push_back(
          endpoint.irecv(bytes_span(std::span<double>(row.others[rank - 1])),
                         rank, tags::kResults));
    for (const Request& arrival : arrivals) endpoint.wait(arrival);
  });
}

void Recorder::write_rows() {
  if (endpoint_.rank() != 0) return;
  const bool is_alone = endpoint_.size() == 1;  // has no peers
  while (!open_rows_.empty() &&
         (is_alone || endpoint_.done(open_rows_.front().task))) {
    endpoint_.join(open_rows_.front().task);
    if (results_) write(open_rows_.front());
    open_rows_.pop_front();
  }
}

void Recorder::write_all_rows() {
  for (const OpenRow& row : open_rows_) {
    endpoint_.join(row.task);
    if (results_) write(row);
  }
  open_rows_.clear();
}

void Recorder::write(const OpenRow& row) {
  const size_t num_metrics = metrics_.size();
  std::vector<std::vector<double>> by_worker = {row.mine};
  by_worker.insert(by_worker.end(), row.others.begin(), row.others.end());
  std::vector<double> total(num_metrics + kNumFigures, 0.0);
  double virtual_s = by_worker[0][num_metrics + kVirtual];
  for (const auto& worker : by_worker) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += worker[i];
    virtual_s = std::max(virtual_s, worker[num_metrics + kVirtual]);
  }
  const double samples = total[num_metrics + kSamples];
  totals_.samples += samples;
  totals_.bytes += total[num_metrics + kBytes];
  totals_.messages += total[num_metrics + kMessages];
  totals_.control_bytes += total[num_metrics + kControlBytes];

  std::vector<double> train = position_columns(row.at);
  train.insert(train.end(), {totals_.samples, row.time_s, virtual_s});
  for (size_t i = 0; i < num_metrics; ++i) train.push_back(total[i] / samples);
  train.push_back(row.at.rate);
  if (row.decay_term) train.push_back(row.decay_term->get());
  for (const auto& worker : by_worker)
    train.push_back(worker[0] / worker[num_metrics + kSamples]);
  results_->table("train").append(train);

  std::vector<double> comm = position_columns(row.at);
  comm.push_back(row.time_s);
  for (Figure figure : {kBytes, kMessages, kControlBytes, kCompute, kExposed,
                        kOverlapped, kWait})
    for (const auto& worker : by_worker)
      comm.push_back(worker[num_metrics + figure]);
  results_->table("comm").append(comm);
  write_series(row.at, by_worker);

  log_row(row, total);
  if (csv_) csv_->update();
  results_->commit_if_due();
}

void Recorder::write_series(const Position& at,
                            const std::vector<std::vector<double>>& by_worker) {
  if (series_.empty()) return;
  std::vector<double> values = position_columns(at);
  size_t first = metrics_.size() + kNumFigures;
  for (const SeriesInfo& info : series_) {
    std::vector<double> combined = {};
    for (const auto& worker : by_worker) {
      const auto begin = worker.begin() + static_cast<int64_t>(first);
      const std::vector<double> own(begin, begin + info.width);
      if (info.over == SeriesInfo::Over::kWorkers || combined.empty()) {
        combined.insert(combined.end(), own.begin(), own.end());
        continue;
      }
      for (size_t i = 0; i < own.size(); ++i)
        combined[i] = info.over == SeriesInfo::Over::kMax
                          ? std::max(combined[i], own[i])
                          : combined[i] + own[i];
    }
    if (info.over == SeriesInfo::Over::kMean)
      for (double& value : combined)
        value /= static_cast<double>(by_worker.size());
    values.insert(values.end(), combined.begin(), combined.end());
    first += info.width;
  }
  results_->table("sync").append(values);
}

void Recorder::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "since_row/metric_sums",
                std::span<double>(sums_.values));
  visitor.visit(Owner::kWorker, "since_row/samples",
                std::span(&sums_.samples, 1));
  // Virtual seconds are a part of the state, wall seconds are not.
  double none = 0;
  if (endpoint_.has_virtual_time())
    visit_together(
        visitor, "since_row/virtual_seconds",
        {&compute_s_, &times_.exposed_s, &times_.overlapped_s, &times_.wait_s});
  else
    visit_together(visitor, "since_row/virtual_seconds",
                   {&none, &none, &none, &none});
  // Stored as differences, because a resumed process starts counting at zero.
  const TrafficCounters now = frozen_.value_or(endpoint_.traffic());
  TrafficCounters sent = since(now, base_);
  visitor.visit(Owner::kWorker, "since_row/bytes_sent",
                std::span<int64_t>(sent.bytes_sent));
  visitor.visit(Owner::kWorker, "since_row/messages_sent",
                std::span<int64_t>(sent.messages_sent));
  base_ = since(now, sent);
  visitor.visit(Owner::kWorker, "since_start/skipped_steps",
                std::span(&skipped_steps_, 1));
  visit_together(visitor, "since_start/totals",
                 {&totals_.samples, &totals_.bytes, &totals_.messages,
                  &totals_.control_bytes, &best_metric_});
  double is_average = average_is_best_ ? 1 : 0;
  visit_together(visitor, "since_start/best",
                 {&is_average, &test_at_best_, &evaluations_});
  average_is_best_ = is_average > 0;
}

// Includes what was counted after the last row.
Recorder::EndFigures Recorder::end_figures(const TrafficCounters& now) const {
  const TrafficCounters sent = since(now, base_);
  return {.compute_s = run_compute_s_ + compute_s_,
          .exposed_s = run_times_.exposed_s + times_.exposed_s,
          .wait_s = run_times_.wait_s + times_.wait_s,
          .overlapped_s = run_times_.overlapped_s + times_.overlapped_s,
          .data_wait_s = data_wait_s_,
          .samples = run_samples_ + sums_.samples,
          .row_samples = sums_.samples,
          .row_bytes = static_cast<double>(sent.bytes_sent[kPayload]),
          .row_messages = static_cast<double>(sent.messages_sent[kPayload]),
          .row_control_bytes = static_cast<double>(sent.bytes_sent[kControl]),
          .skipped = static_cast<double>(skipped_steps_),
          .steps = static_cast<double>(scheme_.steps_done()),
          .virtual_s = virtual_s()};
}

void Recorder::finish(const Position& at,
                      const std::string& how,
                      const std::string& stopped_by) {
  const EndFigures mine = end_figures(endpoint_.traffic());
  std::vector<std::vector<std::byte>> all;
  uncounted([&] {
    all = gather_bytes(endpoint_, endpoint_.world_group(), {&mine, sizeof mine},
                       0, tags::kResults, Traffic::kControl);
  });
  if (!results_) return;
  Totals totals = totals_;
  totals.trained_s = time_s_ - resumed_time_s_;
  const Table& train = results_->table("train");
  if (train.rows() > 0)
    totals.virtual_s = train.column("virtual_s").values.back();
  double samples = 0;  // since this start
  std::vector<EndFigures> by_worker;
  for (const std::vector<std::byte>& bytes : all) {
    EndFigures& worker = by_worker.emplace_back();
    CHECK(bytes.size() == sizeof worker);
    std::memcpy(&worker, bytes.data(), sizeof worker);
    samples += worker.samples;
    totals.samples += worker.row_samples;
    totals.bytes += worker.row_bytes;
    totals.messages += worker.row_messages;
    totals.control_bytes += worker.row_control_bytes;
    totals.skipped += worker.skipped;
    if (worker.row_samples > 0)  // its clock has moved since the last row
      totals.virtual_s = std::max(totals.virtual_s, worker.virtual_s);
  }
  if (totals.trained_s > 0)
    totals.samples_per_s = samples / totals.trained_s;
  else if (time_s_ > 0)  // nothing was left to do
    totals.samples_per_s = totals.samples / time_s_;
  log_end(at, stopped_by == "none" ? how : how + " by " + stopped_by, by_worker,
          totals);
  summarize(how, stopped_by, totals);
}

}  // namespace syncopate
