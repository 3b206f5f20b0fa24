#include "app/recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

constexpr int kPayload = static_cast<int>(Traffic::kPayload);
constexpr int kControl = static_cast<int>(Traffic::kControl);

Column real_column(std::string name,
                   std::string unit,
                   std::string text,
                   int64_t width = 0) {
  Column column;
  column.name = std::move(name);
  column.unit = std::move(unit);
  column.description = std::move(text);
  column.width = width;
  return column;
}

Column integer_column(std::string name, std::string text, int64_t width = 0) {
  Column column = real_column(std::move(name), "1", std::move(text), width);
  column.is_integer = true;
  return column;
}

Column time_column(std::string name, std::string text, int64_t width = 0) {
  Column column = real_column(std::move(name), "s", std::move(text), width);
  column.is_time = true;
  return column;
}

void declare_position(Table& table) {
  table.declare(integer_column("step", "worker_steps / number of workers"));
  table.declare(
      integer_column("worker_steps", "steps of all workers together"));
  table.declare(real_column("epoch", "1", "passes over the training set"));
}

void declare_clocks(Table& table) {
  table.declare(time_column(
      "time_s", "wall time of training, without evaluation and checkpoints"));
  Column virtual_clock =
      real_column("virtual_s", "s", "virtual time of rank 0; NaN under MPI");
  table.declare(virtual_clock);
}

}  // namespace

Recorder::Recorder(Session& session,
                   const Engine& engine,
                   Endpoint& endpoint,
                   Results* results)
    : session_(session),
      engine_(engine),
      endpoint_(endpoint),
      results_(results),
      metrics_(engine.model->metrics()) {
  sums_.values.assign(metrics_.size(), 0.0);
  if (results_) declare_tables();
}

void Recorder::declare_tables() {
  const int64_t workers = endpoint_.size();
  Table& train = results_->table("train");
  declare_position(train);
  train.declare(integer_column("samples", "samples seen by all workers"));
  declare_clocks(train);
  for (const MetricInfo& metric : metrics_)
    train.declare(real_column(
        metric.name, "1",
        metric.description + ", over the steps since the row before"));
  train.declare(real_column("lr", "1", "learning rate of the last step"));
  train.declare(
      real_column("loss_worker", "1", "loss of each worker", workers));

  Table& eval = results_->table("eval");
  declare_position(eval);
  declare_clocks(eval);
  for (const MetricInfo& metric : metrics_)
    eval.declare(real_column(metric.name, "1",
                             metric.description + ", on the set eval.on"));
  if (engine_.options.eval.model == "each")
    for (const MetricInfo& metric : metrics_)
      eval.declare(real_column(metric.name + "_worker", "1",
                               metric.description + ", of each worker's model",
                               workers));

  Table& comm = results_->table("comm");
  declare_position(comm);
  comm.declare(time_column("time_s", "as in /train"));
  comm.declare(
      integer_column("bytes_sent", "payload handed to the transport", workers));
  comm.declare(integer_column("messages_sent", "payload messages", workers));
  comm.declare(integer_column("control_bytes",
                              "agreement, clocks, rows of results", workers));
  const char* clock = " (virtual in one process, wall under MPI)";
  comm.declare(time_column(
      "compute_s", std::string("forward and backward") + clock, workers));
  comm.declare(time_column(
      "exposed_s", std::string("waiting for communication") + clock, workers));
  comm.declare(time_column(
      "overlapped_s", std::string("communication under computation") + clock,
      workers));
  comm.declare(time_column(
      "wait_s",
      std::string(
          "of exposed_s: for others to arrive (NCCL does not tell: NaN)") +
          clock,
      workers));
}

void Recorder::metrics(const MetricSums& sums) {
  sums_.add(sums);
}

void Recorder::step_done(double compute_s, const SyncTimes& times) {
  compute_s_ += compute_s;
  times_.exposed_s += times.exposed_s;
  times_.overlapped_s += times.overlapped_s;
  times_.wait_s += times.wait_s;
}

void Recorder::start_clock() {
  clock_started_s_ = monotonic_s();
}

void Recorder::stop_clock() {
  time_s_ += monotonic_s() - clock_started_s_;
  // For a resume: rows tell the clock only at their own steps.
  if (results_)
    results_->provenance("training_ms",
                         static_cast<int64_t>(std::llround(1e3 * time_s_)));
}

void Recorder::forget_earlier_process() {
  run_compute_s_ = -compute_s_;
  run_times_ = {-times_.exposed_s, -times_.overlapped_s, -times_.wait_s};
  run_samples_ = -sums_.samples;
}

void Recorder::resume_clock(int64_t step) {
  last_row_step_ = step;
  time_s_ = 1e-3 * static_cast<double>(
                       results_->provenance_integer("training_ms").value_or(0));
  resumed_time_s_ = last_row_time_s_ = time_s_;
}

double Recorder::virtual_s() const {
  return session_.size() > 1 ? std::numeric_limits<double>::quiet_NaN()
                             : endpoint_.now();
}

void Recorder::forget_traffic() {
  base_ = endpoint_.traffic();
}

// The figures that each worker sends for a row: metric sums, then these.
enum Figure {
  kSamples,
  kCompute,
  kExposed,
  kOverlapped,
  kWait,
  kBytes,
  kMessages,
  kControlBytes,
  kNumFigures
};

void Recorder::row(const Position& at) {
  const TrafficCounters& now = endpoint_.traffic();
  const auto since = [](int64_t value, int64_t base) {
    return static_cast<double>(value - base);
  };
  std::vector<double> mine = sums_.values;
  mine.insert(
      mine.end(),
      {sums_.samples, compute_s_, times_.exposed_s, times_.overlapped_s,
       times_.wait_s,
       since(now.bytes_sent[kPayload], base_.bytes_sent[kPayload]),
       since(now.messages_sent[kPayload], base_.messages_sent[kPayload]),
       since(now.bytes_sent[kControl], base_.bytes_sent[kControl])});
  base_ = now;
  run_compute_s_ += compute_s_;
  run_times_.exposed_s += times_.exposed_s;
  run_times_.overlapped_s += times_.overlapped_s;
  run_times_.wait_s += times_.wait_s;
  run_samples_ += sums_.samples;
  compute_s_ = 0;
  times_ = {};
  sums_ = {std::vector<double>(metrics_.size(), 0.0), 0.0};

  const auto gathered = gather_bytes(endpoint_, endpoint_.world_group(),
                                     bytes_view(std::span<const double>(mine)),
                                     0, tags::kResults, Traffic::kControl);
  if (!results_) return;

  const size_t num_metrics = metrics_.size();
  const auto workers = static_cast<size_t>(endpoint_.size());
  std::vector<double> total(num_metrics + kNumFigures, 0.0);
  std::vector<std::vector<double>> by_worker(workers, total);
  for (size_t worker = 0; worker < workers; ++worker) {
    const auto* values =
        reinterpret_cast<const double*>(gathered[worker].data());
    by_worker[worker].assign(values, values + total.size());
    for (size_t i = 0; i < total.size(); ++i) total[i] += values[i];
  }
  const double samples = total[num_metrics + kSamples];
  total_samples_ += samples;
  total_bytes_ += total[num_metrics + kBytes];
  total_messages_ += total[num_metrics + kMessages];
  total_control_ += total[num_metrics + kControlBytes];

  const double epoch =
      static_cast<double>(at.step) / engine_.plan.steps_per_epoch;
  const std::vector<double> position = {static_cast<double>(at.step),
                                        static_cast<double>(at.worker_steps),
                                        epoch};
  std::vector<double> means;
  for (size_t i = 0; i < num_metrics; ++i) means.push_back(total[i] / samples);

  std::vector<double> train = position;
  for (const double value : {total_samples_, time_s_, virtual_s()})
    train.push_back(value);
  train.insert(train.end(), means.begin(), means.end());
  train.push_back(at.rate);
  for (const auto& worker : by_worker)
    train.push_back(worker[0] / worker[num_metrics + kSamples]);
  results_->table("train").append(train);

  std::vector<double> comm = position;
  comm.push_back(time_s_);
  for (Figure figure : {kBytes, kMessages, kControlBytes, kCompute, kExposed,
                        kOverlapped, kWait})
    for (const auto& worker : by_worker)
      comm.push_back(worker[num_metrics + figure]);
  results_->table("comm").append(comm);

  log_row(at, means, total[num_metrics + kExposed] / endpoint_.size(),
          total[num_metrics + kCompute] / endpoint_.size());
  results_->commit_if_due();
}

void Recorder::log_row(const Position& at,
                       const std::vector<double>& means,
                       double exposed_s,
                       double compute_s) {
  const double seconds = time_s_ - last_row_time_s_;
  const auto steps =
      static_cast<double>(std::max<int64_t>(1, at.step - last_row_step_));
  const double samples =
      steps *
      static_cast<double>(engine_.options.data.batch *
                          engine_.options.data.accumulate * endpoint_.size());
  const double left =
      static_cast<double>(engine_.plan.stop_at - at.step) * seconds / steps;
  last_row_time_s_ = time_s_;
  last_row_step_ = at.step;
  const std::string clock =
      session_.size() > 1
          ? fmt::format("{:.1f} + {:.1f} ms compute + exposed",
                        1e3 * compute_s / steps, 1e3 * exposed_s / steps)
          : fmt::format("{:.1f} ms on this machine | virtual {:.1f} s",
                        1e3 * seconds / steps, endpoint_.now());
  session_.log().line(
      "step {:>6}/{} | epoch {:6.2f} | loss {:.4f} | {} {:.4f} | lr {:.4g} | "
      "{:.0f} samples/s | {} | ETA {}",
      at.step, engine_.plan.stop_at,
      static_cast<double>(at.step) / engine_.plan.steps_per_epoch, means[0],
      metrics_.size() > 1 ? metrics_[1].name : "loss",
      metrics_.size() > 1 ? means[1] : means[0], at.rate,
      seconds > 0 ? samples / seconds : 0.0, clock, human_seconds(left));
}

void Recorder::evaluation(const Position& at,
                          const MetricSums& all,
                          const std::vector<MetricSums>& by_worker) {
  if (!results_) return;
  if (!std::isfinite(all.values[0]))
    session_.log().warning(fmt::format(
        "the loss of the evaluation at step {} is not finite", at.step));
  std::vector<double> row = {
      static_cast<double>(at.step), static_cast<double>(at.worker_steps),
      static_cast<double>(at.step) / engine_.plan.steps_per_epoch, time_s_,
      virtual_s()};
  std::string text;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const double value = all.values[i] / all.samples;
    row.push_back(value);
    text += fmt::format(" | {} {:.4f}", metrics_[i].name, value);
    if (i == 1) best_metric_ = std::max(best_metric_, value);
  }
  for (size_t i = 0; i < metrics_.size() && !by_worker.empty(); ++i)
    for (const MetricSums& worker : by_worker)
      row.push_back(worker.values[i] / worker.samples);
  results_->table("eval").append(row);
  session_.log().line(
      "eval {:>6}{} | epoch {:6.2f} | {} set{}", at.step,
      std::string(std::to_string(engine_.plan.stop_at).size() + 1, ' '),
      static_cast<double>(at.step) / engine_.plan.steps_per_epoch,
      engine_.options.eval.on, text);
}

void Recorder::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "since_row/metric_sums",
                std::span<double>(sums_.values));
  visitor.visit(Owner::kWorker, "since_row/samples",
                std::span(&sums_.samples, 1));
  // Virtual seconds are a part of the state, wall seconds are not.
  std::vector<double> seconds(4, 0.0);
  if (session_.size() == 1)
    seconds = {compute_s_, times_.exposed_s, times_.overlapped_s,
               times_.wait_s};
  visitor.visit(Owner::kWorker, "since_row/virtual_seconds",
                std::span<double>(seconds));
  if (session_.size() == 1) {
    compute_s_ = seconds[0];
    times_ = {seconds[1], seconds[2], seconds[3]};
  }
  // As differences, so that a resumed process may start counting at zero.
  TrafficCounters since;
  const TrafficCounters now = frozen_.value_or(endpoint_.traffic());
  for (int kind = 0; kind < kNumTrafficKinds; ++kind) {
    since.bytes_sent[kind] = now.bytes_sent[kind] - base_.bytes_sent[kind];
    since.messages_sent[kind] =
        now.messages_sent[kind] - base_.messages_sent[kind];
  }
  visitor.visit(Owner::kWorker, "since_row/bytes_sent",
                std::span<int64_t>(since.bytes_sent));
  visitor.visit(Owner::kWorker, "since_row/messages_sent",
                std::span<int64_t>(since.messages_sent));
  for (int kind = 0; kind < kNumTrafficKinds; ++kind) {
    base_.bytes_sent[kind] = now.bytes_sent[kind] - since.bytes_sent[kind];
    base_.messages_sent[kind] =
        now.messages_sent[kind] - since.messages_sent[kind];
  }
  std::vector<double> totals = {total_samples_, total_bytes_, total_messages_,
                                total_control_, best_metric_};
  visitor.visit(Owner::kWorker, "since_start/totals",
                std::span<double>(totals));
  total_samples_ = totals[0];
  total_bytes_ = totals[1];
  total_messages_ = totals[2];
  total_control_ = totals[3];
  best_metric_ = totals[4];
}

void Recorder::finish(const Position& at, const std::string& how) {
  // With what came after the last row.
  const TrafficCounters& now = endpoint_.traffic();
  const auto since = [](int64_t value, int64_t base) {
    return static_cast<double>(value - base);
  };
  const std::vector<double> mine = {
      run_compute_s_ + compute_s_,
      run_times_.exposed_s + times_.exposed_s,
      run_times_.overlapped_s + times_.overlapped_s,
      data_wait_s_,
      run_samples_ + sums_.samples,
      sums_.samples,
      since(now.bytes_sent[kPayload], base_.bytes_sent[kPayload]),
      since(now.messages_sent[kPayload], base_.messages_sent[kPayload]),
      since(now.bytes_sent[kControl], base_.bytes_sent[kControl])};
  std::vector<std::vector<double>> all;
  uncounted([&] {
    all = all_gather(endpoint_, endpoint_.world_group(), mine, tags::kResults,
                     Traffic::kControl);
  });
  if (!results_) return;
  std::vector<double> sums(mine.size(), 0.0);
  for (const auto& worker : all)
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += worker[i];
  const double trained_s = time_s_ - resumed_time_s_;
  const Totals totals{.samples = total_samples_ + sums[5],
                      .samples_per_s = trained_s > 0 ? sums[4] / trained_s : 0,
                      .trained_s = trained_s,
                      .bytes = total_bytes_ + sums[6],
                      .messages = total_messages_ + sums[7],
                      .control_bytes = total_control_ + sums[8]};
  log_end(at, how, all, totals);
  summarize(how, totals);
}

void Recorder::log_end(const Position& at,
                       const std::string& how,
                       const std::vector<std::vector<double>>& by_worker,
                       const Totals& totals) {
  Log& log = session_.log();
  log.line("");
  log.line("{}: {} steps, {:.2f} epochs", how, at.step,
           static_cast<double>(at.step) / engine_.plan.steps_per_epoch);
  log.line("  {:<28} {:>10} {:>10} {:>10}   {}", "section", "min", "avg", "max",
           session_.size() > 1 ? "wall seconds since this start, over workers"
                               : "virtual seconds since this start, over "
                                 "workers");
  const char* names[] = {"compute", "communication exposed",
                         "communication overlapped", "waiting for data (wall)"};
  for (size_t section = 0; section < std::size(names); ++section) {
    double low = by_worker[0][section], high = low, sum = 0;
    for (const auto& worker : by_worker) {
      low = std::min(low, worker[section]);
      high = std::max(high, worker[section]);
      sum += worker[section];
    }
    log.line("  {:<28} {:>10.3f} {:>10.3f} {:>10.3f}", names[section], low,
             sum / static_cast<double>(by_worker.size()), high);
  }
  log.line("  training {} of {} on this machine, {:.0f} samples/s",
           human_seconds(totals.trained_s),
           human_seconds(monotonic_s() - session_.started_s()),
           totals.samples_per_s);
  log.line(
      "  the whole run sent, all workers: {} in {:.0f} messages, control "
      "{}{}",
      human_bytes(totals.bytes), totals.messages,
      human_bytes(totals.control_bytes),
      endpoint_.traffic().is_modelled ? " (native: modelled)" : "");
}

void Recorder::summarize(const std::string& how, const Totals& totals) {
  results_->summary("samples", totals.samples, "1", "samples seen in all");
  results_->summary("time_s", time_s_, "s", "wall time of training");
  results_->summary("samples_per_s", totals.samples_per_s, "s-1",
                    "samples by wall time of training, since the last start");
  results_->summary("bytes_sent", totals.bytes, "1",
                    "payload bytes sent by all workers");
  results_->summary("messages_sent", totals.messages, "1",
                    "payload messages sent by all workers");
  results_->summary("bytes_are_modelled",
                    endpoint_.traffic().is_modelled ? 1 : 0, "1",
                    "1: a native collective's bytes are a formula");
  if (best_metric_ >= 0)
    results_->summary("best_" + metrics_[1].name, best_metric_, "1",
                      "best of all evaluations");
  const Table& eval = results_->table("eval");
  if (eval.rows() > 0)
    for (const MetricInfo& metric : metrics_)
      results_->summary("final_" + metric.name,
                        eval.column(metric.name).values.back(), "1",
                        "of the last evaluation");
  results_->summary("finished", how == "finished" ? 1 : 0, "1",
                    "1: the run reached its last step");
}

}  // namespace syncopate
