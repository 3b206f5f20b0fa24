#include "train/recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "tensor/visit_numbers.h"

namespace syncopate {
namespace {

bool decays(const Options& options) {
  return options.optimizer.weight_decay > 0;
}

}  // namespace

Recorder::Recorder(Session& session,
                   const Engine& engine,
                   Endpoint& endpoint,
                   Scheme& scheme,
                   const Replica& replica,
                   Tally& tally,
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
      tally_(tally),
      speed_(engine),
      target_(engine) {
  if (!results_) return;
  has_decay_term_ =
      decays(engine.options) ||
      std::any_of(engine.phases.begin(), engine.phases.end(), decays);
  declare_tables();
  declare_series();
}

void Recorder::stop_clock() {
  clock_.stop();
  // Needed on resume, because rows state the clock only at their own steps.
  if (results_) results_->provenance(kTrainingMs, training_ms());
}

void Recorder::forget_earlier_process(int64_t worker_steps) {
  tally_.forget_earlier_process();
  const int64_t every = engine_.plan.log_every * endpoint_.size();
  rows_closed_ = every > 0 ? worker_steps / every : 0;
  last_row_ended_ = rows_closed_ * every;
}

int64_t Recorder::training_ms() const {
  return std::llround(1e3 * clock_.now_s());
}

void Recorder::resume_clock(int64_t step, int64_t training_ms) {
  clock_.resume(1e-3 * static_cast<double>(training_ms));
  speed_.resume(step, clock_.now_s());
}

double Recorder::virtual_s() const {
  return endpoint_.has_virtual_time()
             ? endpoint_.now()
             : std::numeric_limits<double>::quiet_NaN();
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
  return figures + (is_free_running_ ? kNumOwn : 0);
}

bool Recorder::is_row_over(int64_t worker_steps) const {
  const int64_t every = engine_.plan.log_every * endpoint_.size();
  return every > 0 && worker_steps >= (rows_closed_ + 1) * every;
}

void Recorder::close_rows(int64_t worker_steps, const LastStep& last) {
  while (is_row_over(worker_steps)) {
    ++rows_closed_;
    const int64_t step = rows_closed_ * engine_.plan.log_every;
    close_row({step, step * endpoint_.size(), last.rate}, last);
  }
}

void Recorder::close_last_row(const Position& at, const LastStep& last) {
  if (at.worker_steps > last_row_ended_) close_row(at, last);
}

void Recorder::close_row(const Position& at, const LastStep& last) {
  constexpr size_t kMostOpen = 4;  // rank 0 may be slow to receive
  while (endpoint_.rank() != 0 && open_rows_.size() >= kMostOpen) {
    endpoint_.join(open_rows_.front().task);
    open_rows_.pop_front();
  }
  OpenRow& row = open_rows_.emplace_back();
  row.at = at;
  row.time_s = clock_.now_s();
  const Tally::Row counted = tally_.end_row();
  const MetricSums& sums = counted.sums;
  const SyncTimes& times = counted.times;
  row.mine = sums.values;
  row.mine.insert(row.mine.end(),
                  {sums.samples, counted.compute_s, times.exposed_s,
                   times.overlapped_s, times.wait_s, counted.bytes,
                   counted.messages, counted.control_bytes, virtual_s()});
  const std::vector<double> series = scheme_.take_series();
  row.mine.insert(row.mine.end(), series.begin(), series.end());
  if (is_free_running_)
    row.mine.insert(row.mine.end(), {clock_.since_start_s(), last.rate,
                                     static_cast<double>(last.worker_steps),
                                     static_cast<double>(last.steps_done)});
  CHECK(row.mine.size() == num_figures());
  if (has_decay_term_)
    row.decay_term.emplace(*engine_.context, scheme_.optimizer_options(),
                           engine_.model->parameters(), replica_.parameters);
  if (sums.samples > 0) closed_loss_ = sums.values[0] / sums.samples;
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
    if (results_) write(as_first_ended(open_rows_.front()));
    open_rows_.pop_front();
  }
}

void Recorder::write_all_rows() {
  for (OpenRow& row : open_rows_) {
    endpoint_.join(row.task);
    if (results_) write(as_first_ended(row));
  }
  open_rows_.clear();
}

// Where each worker takes steps of its own, a row ends when the first of them
// begins one beyond it, whichever that is, and the last step in it tells the
// rate.
Recorder::OpenRow& Recorder::as_first_ended(OpenRow& row) const {
  if (!is_free_running_) return row;
  const size_t first = num_figures() - kNumOwn;
  const double earlier_s = clock_.now_s() - clock_.since_start_s();
  double last = -1;
  const auto look_at = [&](const std::vector<double>& worker) {
    row.time_s = std::min(row.time_s, earlier_s + worker[first + kEnded]);
    if (worker[first + kLastStep] <= last) return;
    last = worker[first + kLastStep];
    row.at.rate = worker[first + kRate];
  };
  row.time_s = earlier_s + row.mine[first + kEnded];
  look_at(row.mine);
  for (const std::vector<double>& other : row.others) look_at(other);
  return row;
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
  tally_.visit_state(visitor);
  visit_together(visitor, Owner::kWorker, "since_start/totals",
                 {&totals_.samples, &totals_.bytes, &totals_.messages,
                  &totals_.control_bytes, &best_evaluation_.score});
  double is_of_average = best_evaluation_.is_of_average ? 1 : 0;
  visit_together(visitor, Owner::kWorker, "since_start/best",
                 {&is_of_average, &best_evaluation_.test_score,
                  &best_evaluation_.evaluations});
  best_evaluation_.is_of_average = is_of_average > 0;
}

Recorder::EndFigures Recorder::end_figures() const {
  const Tally::Row row = tally_.row();
  return {.since_start = tally_.since_start(),
          .row_samples = row.sums.samples,
          .row_bytes = row.bytes,
          .row_messages = row.messages,
          .row_control_bytes = row.control_bytes,
          .skipped = static_cast<double>(tally_.skipped_steps()),
          .steps = static_cast<double>(scheme_.steps_done()),
          .virtual_s = virtual_s()};
}

void Recorder::finish(const Position& at,
                      const std::string& how,
                      const std::string& stopped_by) {
  static_assert(std::is_trivially_copyable_v<EndFigures>);
  const EndFigures mine = end_figures();
  std::vector<std::vector<std::byte>> all;
  tally_.uncounted([&] {
    all = gather_bytes(endpoint_, endpoint_.world_group(), {&mine, sizeof mine},
                       0, tags::kResults, Traffic::kControl);
  });
  if (!results_) return;
  Totals totals = totals_;
  totals.trained_s = clock_.since_start_s();
  const Table& train = results_->table("train");
  if (train.rows() > 0) {
    const std::vector<double>& virtual_s = train.column("virtual_s").values;
    totals.virtual_s = virtual_s.back();
    totals.is_partly_virtual =
        std::ranges::any_of(virtual_s, [](double s) { return std::isnan(s); });
  }
  double samples = 0;  // since this start
  std::vector<EndFigures> by_worker;
  for (const std::vector<std::byte>& bytes : all) {
    EndFigures& worker = by_worker.emplace_back();
    CHECK(bytes.size() == sizeof worker);
    std::memcpy(&worker, bytes.data(), sizeof worker);
    samples += worker.since_start.samples;
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
  else if (clock_.now_s() > 0)  // nothing was left to do
    totals.samples_per_s = totals.samples / clock_.now_s();
  log_end(at, stopped_by == "none" ? how : how + " by " + stopped_by, by_worker,
          totals);
  summarize(at, how, stopped_by, totals);
}

}  // namespace syncopate
