// Rank 0's output: tables, lines of the log, and the summary.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "train/recorder.h"

namespace syncopate {
namespace {

// "1234/5678": with more digits, the range of workers' steps does not fit into
// a line of 100 columns.
constexpr size_t kWidestBesideRange = 9;

// A loss or metric, short also for a run that diverges.
std::string figure(double value) {
  if (std::isnan(value)) return "nan";  // without a sign
  constexpr double kWide = 1e5;
  return std::abs(value) < kWide ? fmt::format("{:.4f}", value)
                                 : fmt::format("{:.4g}", value);
}

Column count_column(const std::string& name,
                    const std::string& unit,
                    const std::string& text,
                    int64_t width = 0) {
  return {name, unit, text, width, /*is_integer=*/true};
}

Column time_column(const std::string& name,
                   const std::string& text,
                   int64_t width = 0) {
  return {name, "s", text, width, /*is_integer=*/false, /*is_time=*/true};
}

void declare_position(Table& table) {
  table.declare(count_column("step", "1", "worker_steps / number of workers"));
  table.declare(
      count_column("worker_steps", "1", "steps of all workers together"));
  table.declare({"epoch", "1", "passes over the training set"});
}

void declare_clocks(Table& table) {
  table.declare(time_column(
      "time_s", "wall time of training, without evaluation and checkpoints"));
  table.declare(
      {"virtual_s", "s", "virtual time of the last worker; NaN under MPI"});
}

// "40, 10 (10 to 40)"; only the extremes if there are many workers.
std::string steps_text(const std::vector<int64_t>& steps) {
  constexpr size_t kMaxListed = 16;
  const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
  const std::string extremes = fmt::format("{} to {}", *least, *most);
  if (steps.size() > kMaxListed) return extremes;
  return fmt::format("{} ({})", fmt::join(steps, ", "), extremes);
}

}  // namespace

void Recorder::declare_tables() {
  const int64_t workers = endpoint_.size();
  Table& train = results_->table("train");
  train.describe(
      "one row per run.log_every: means over the steps since the row before");
  declare_position(train);
  train.declare(count_column("samples", "1", "samples seen by all workers"));
  declare_clocks(train);
  for (const MetricInfo& metric : metrics_)
    train.declare(
        {metric.name, metric.unit,
         metric.description + ", over the steps since the row before"});
  train.declare({"lr", "1", "learning rate of the last step"});
  if (has_decay_term_)
    train.declare(
        {"weight_decay", "1",
         "weight decay term of worker 0's model: half of "
         "optimizer.weight_decay (the phase's) times the sum of squares of the "
         "parameters that decay"});
  train.declare({"loss_worker", "1",
                 "loss of each worker, NaN: no step of its own in the row",
                 workers});

  Table& eval = results_->table("eval");
  eval.describe("one row per evaluation, of the model that eval.model names");
  declare_position(eval);
  declare_clocks(eval);
  const auto declare_metrics = [&](const std::string& suffix,
                                   const std::string& of, int64_t width) {
    for (const MetricInfo& metric : eval_metrics_)
      eval.declare(
          {metric.name + suffix, metric.unit, metric.description + of, width});
  };
  const EvalChoice which = engine_.options.eval.model;
  declare_metrics("", ", on the set eval.on", 0);
  if (includes_each(which))
    declare_metrics("_worker", ", of each worker's model", workers);
  if (which == EvalChoice::kEachAndAverage)
    declare_metrics("_average", ", of the average model", 0);
  eval.declare(
      {"consensus_distance", "1",
       "sqrt(mean over workers of |x_i - mean x|^2); 0: replicas are equal"});

  Table& comm = results_->table("comm");
  comm.describe(
      "one row per run.log_every, by worker: what was sent and waited for "
      "since the row before, not since the start; sums over rows are totals");
  declare_position(comm);
  comm.declare(time_column("time_s", "as in /train"));
  comm.declare(count_column("bytes_sent", "byte",
                            "payload handed to the transport", workers));
  comm.declare(count_column("messages_sent", "1", "payload messages", workers));
  comm.declare(count_column("control_bytes", "byte",
                            "agreement, clocks, rows of results; models that a "
                            "server hands out at a boundary",
                            workers));
  for (const auto& [name, text] :
       {std::pair("compute_s", "forward and backward"),
        {"exposed_s", "the worker was blocked on communication"},
        {"overlapped_s", "communication during computation"},
        {"wait_s",
         "of exposed_s: waiting for peers (NaN with NCCL, which does not "
         "report it)"}})
    comm.declare(time_column(
        name, text + std::string(" (virtual in one process, wall under MPI)"),
        workers));
}

// One column per worker and value, or the workers' values combined.
void Recorder::declare_series() {
  if (series_.empty()) return;
  Table& sync = results_->table("sync");
  sync.describe(
      "one row per run.log_every: what the scheme did since the row before");
  declare_position(sync);
  for (const SeriesInfo& info : series_) {
    const bool by_worker = info.over == SeriesInfo::Over::kWorkers;
    const int64_t width =
        by_worker ? info.width * endpoint_.size() : info.width;
    Column column{info.name, info.unit, info.description,
                  width == 1 && !by_worker ? 0 : width};
    column.is_time = info.unit == "s";
    if (!by_worker)
      column.across = "value";
    else if (info.width > 1)
      column.across = "worker, value";
    sync.declare(std::move(column));
  }
}

void Recorder::log_row(const OpenRow& row, const std::vector<double>& total) {
  const Position& at = row.at;
  const double* figures = &total[metrics_.size()];
  const double samples = figures[kSamples];
  const SpeedLog::Speed speed = speed_.end_row(at.step, row.time_s, samples);
  std::string by_worker;
  if (is_free_running_ && step_text(at).size() <= kWidestBesideRange) {
    double least = row.mine.back(), most = least;  // kStepsDone
    for (const std::vector<double>& other : row.others) {
      least = std::min(least, other.back());
      most = std::max(most, other.back());
    }
    by_worker = fmt::format(" ({:.0f}-{:.0f})", least, most);
  }
  std::string metric;
  if (metrics_.size() > 1)
    metric =
        fmt::format(" | {} {}", metrics_[1].name, figure(total[1] / samples));
  const double busy_s = figures[kCompute] + figures[kExposed];
  session_.log().line(
      "step {}{} | loss {}{} | {:.0f} samples/s | exposed {:.0f}% | ETA {}",
      step_text(at), by_worker, figure(total[0] / samples), metric,
      speed.samples_per_s, busy_s > 0 ? 100 * figures[kExposed] / busy_s : 0.0,
      human_seconds(speed.left_s));
}

// "  50/1404", as wide for every step of a run.
std::string Recorder::step_text(const Position& at) const {
  const int64_t last = engine_.plan.stop_at;
  return fmt::format("{:>{}}/{}", at.step, std::to_string(last).size(), last);
}

// "top5" for accuracy_top5, which follows accuracy.
std::string Recorder::short_name(size_t metric) const {
  const std::string& name = eval_metrics_[metric].name;
  const std::string before = eval_metrics_[1].name + "_";
  return name.starts_with(before) ? name.substr(before.size()) : name;
}

std::string Recorder::progress_note(int64_t worker_steps) const {
  const MetricSums& sums = tally_.sums();
  const double loss =
      sums.samples > 0 ? sums.values[0] / sums.samples : closed_loss_;
  const double rate = speed_.since_row(worker_steps, clock_.now_s());
  if (std::isnan(loss) || rate <= 0) return "";
  return fmt::format("loss {} | {:.0f} samples/s", figure(loss), rate);
}

void Recorder::log_first_speed(int64_t worker_steps) {
  if (speed_.is_known()) return;
  const auto speed =
      speed_.first(worker_steps, clock_.now_s(), clock_.since_start_s());
  if (!speed) return;
  const Position at{worker_steps / endpoint_.size(), worker_steps};
  session_.log().line("step {} | {:.0f} samples/s | ETA {}", step_text(at),
                      speed->samples_per_s, human_seconds(speed->left_s));
}

bool Recorder::evaluation(const Position& at, const Evaluation& evaluation) {
  double is_best = results_ && best_evaluation_.note(evaluation) ? 1 : 0;
  if (engine_.options.eval.on == SetPart::kValidation)
    agree(endpoint_, endpoint_.world_group(), std::span(&is_best, 1),
          Combine::kMax, tags::kEvaluation, Traffic::kEvaluation);
  if (results_) write_evaluation(at, evaluation);
  judge_target(at);
  return is_best > 0;
}

void Recorder::test_of_best(const Position& at, const Evaluation& test) {
  if (!results_) return;
  best_evaluation_.note_test(test);
  session_.log().line(
      "best {} | test set | {} {:.4f} at the best validation score so far",
      step_text(at), eval_metrics_[1].name, best_evaluation_.test_score);
}

void Recorder::write_evaluation(const Position& at,
                                const Evaluation& evaluation) {
  if (!std::isfinite(evaluation.metrics[0]))
    session_.log().warning(fmt::format(
        "the loss of the evaluation at step {} is not finite", at.step));
  std::vector<double> row = position_columns(at);
  row.insert(row.end(), {clock_.now_s(), virtual_s()});
  const auto append = [&](const std::vector<double>& values) {
    row.insert(row.end(), values.begin(), values.end());
    std::string text;
    for (size_t i = 0; i < eval_metrics_.size(); ++i)
      text += fmt::format(" | {} {}{}", short_name(i), figure(values[i]),
                          eval_metrics_[i].unit == "%" ? " %" : "");
    return text;
  };
  std::string text = append(evaluation.metrics), of_average;
  for (size_t i = 0; i < eval_metrics_.size(); ++i)
    for (const std::vector<double>& worker : evaluation.by_worker)
      row.push_back(worker[i]);
  if (evaluation.average) of_average = append(*evaluation.average);
  row.push_back(evaluation.consensus_distance.value_or(0));
  if (evaluation.consensus_distance)
    text += fmt::format(" | consensus {:.3g}", row.back());
  results_->table("eval").append(row);
  if (csv_) csv_->update();
  std::string clock;
  if (endpoint_.has_virtual_time())
    clock = fmt::format(" | virtual {:.1f} s", virtual_s());
  const bool is_test = engine_.options.eval.on == SetPart::kTest;
  session_.log().line("eval {}{}{}{}", step_text(at), clock,
                      is_test ? "" : " | validation", text);
  if (evaluation.average)
    session_.log().line("eval {} | average{}", step_text(at), of_average);
}

void Recorder::log_end(const Position& at,
                       const std::string& how,
                       const std::vector<EndFigures>& by_worker,
                       const Totals& totals) {
  Log& log = session_.log();
  log.line("");
  log.line("{}: {}, {:.2f} epochs", how, counted(at.step, "step"), epoch(at));
  log.line("  {:<28} {:>10} {:>10} {:>10}   {}", "section", "min", "avg", "max",
           endpoint_.has_virtual_time()
               ? "virtual seconds since this start, over workers"
               : "wall seconds since this start, over workers");
  using Since = Tally::SinceStart;
  const std::pair<const char*, double Since::*> sections[] = {
      {"compute", &Since::compute_s},
      {"communication exposed", &Since::exposed_s},
      {"  of which waiting for peers", &Since::wait_s},
      {"communication overlapped", &Since::overlapped_s},
      {"waiting for data (wall)", &Since::data_wait_s}};
  for (const auto& [name, seconds] : sections) {
    double low = by_worker[0].since_start.*seconds, high = low, sum = 0;
    if (std::isnan(low)) continue;  // NCCL does not tell
    for (const EndFigures& worker : by_worker) {
      const double own = worker.since_start.*seconds;
      low = std::min(low, own);
      high = std::max(high, own);
      sum += own;
    }
    log.line("  {:<28} {:>10.3f} {:>10.3f} {:>10.3f}", name, low,
             sum / static_cast<double>(by_worker.size()), high);
  }
  log.line(
      "  training {} of {} on this machine, {:.0f} samples/s{}",
      human_seconds(totals.trained_s),
      human_seconds(monotonic_s() - session_.started_s()), totals.samples_per_s,
      totals.virtual_s > 0
          ? fmt::format(
                "; the whole run took {:.1f} s of virtual time{}",
                totals.virtual_s,
                totals.is_partly_virtual ? ", which stood still under MPI" : "")
          : std::string());
  log.line(
      "  the whole run sent, all workers: {} in {:.0f} messages, control "
      "{}{}",
      human_bytes(totals.bytes), totals.messages,
      human_bytes(totals.control_bytes),
      bytes_are_modelled() ? " (native: modelled)" : "");
  if (is_free_running_) {
    std::vector<int64_t> steps;
    for (const EndFigures& worker : by_worker)
      steps.push_back(static_cast<int64_t>(worker.steps));
    log.line("  the whole run's steps by worker: {}", steps_text(steps));
  }
  if (totals.skipped > 0)
    log.line("  non-finite gradients skipped: {:.0f}", totals.skipped);
  log_target(at);
}

void Recorder::summarize(const Position& at,
                         const std::string& how,
                         const std::string& stopped_by,
                         const Totals& totals) {
  results_->ended(how, stopped_by, at.step);
  results_->summary("samples", totals.samples, "1", "samples seen in all");
  results_->summary("time_s", clock_.now_s(), "s", "wall time of training");
  results_->summary(
      "samples_per_s", totals.samples_per_s, "s-1",
      "samples by wall time of training, since the last start (of "
      "the whole run if it took no step)");
  if (totals.virtual_s > 0)
    results_->summary("virtual_s", totals.virtual_s, "s",
                      totals.is_partly_virtual
                          ? "virtual time of the last worker, without its "
                            "steps under MPI"
                          : "virtual time of the last worker");
  results_->summary("bytes_sent", totals.bytes, "byte",
                    "payload bytes sent by all workers");
  results_->summary("messages_sent", totals.messages, "1",
                    "payload messages sent by all workers");
  results_->summary("bytes_are_modelled", bytes_are_modelled() ? 1 : 0, "1",
                    "1: a native collective's bytes are a formula");
  results_->summary("skipped_gradients", totals.skipped, "1",
                    "steps of a worker whose gradient was not finite, and left "
                    "out (run.on_nonfinite = skip)");
  const Table& eval = results_->table("eval");
  best_evaluation_.summarize(*results_, eval_metrics_[1],
                             engine_.options.eval.on);
  if (eval.rows() > 0)
    for (const MetricInfo& metric : eval_metrics_)
      results_->summary("final_" + metric.name,
                        eval.column(metric.name).values.back(), metric.unit,
                        fmt::format("of the last evaluation, on the {} set",
                                    engine_.options.eval.on));
  results_->summary("finished", how == "finished" ? 1 : 0, "1",
                    "1: the run reached its last step or run.target");
  summarize_target();
}

}  // namespace syncopate
