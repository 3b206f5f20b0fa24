// Whether and when a run reached run.target.
#include <array>
#include <span>

#include <fmt/format.h>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "train/recorder.h"

namespace syncopate {
namespace {

constexpr const char* kReachedAt = " was reached at ";

}  // namespace

// Rank 0 judges and keeps the time; totals of closed rows are with rank 0, what
// came after them with each worker.
void Recorder::judge_target(const Position& at) {
  if (!target_ || reached_) return;
  enum { kVerdict, kTime, kVirtual, kBytes, kSamples, kNumSaid };
  std::array<double, kNumSaid> said{};
  const Tally::Row since_row = tally_.row();
  said[kBytes] = totals_.bytes + since_row.bytes;
  said[kSamples] = totals_.samples + since_row.sums.samples;
  if (results_) {
    const Table& eval = results_->table("eval");
    const auto row = target_.first_row(eval);
    if (row && static_cast<int64_t>(*row) == eval.rows() - 1) {
      said[kVerdict] = 1;
      said[kTime] = eval.column("time_s").values[*row];
      said[kVirtual] = eval.column("virtual_s").values[*row];
    }
  }
  tally_.uncounted([&] {
    agree(endpoint_, endpoint_.world_group(), std::span<double>(said),
          Combine::kSum, tags::kEvaluation, Traffic::kEvaluation);
  });
  if (said[kVerdict] == 0) return;
  reached_ = Spent{.step = at.step,
                   .epoch = epoch(at),
                   .time_s = said[kTime],
                   .virtual_s = said[kVirtual],
                   .bytes_sent = said[kBytes],
                   .samples = said[kSamples]};
}

std::string Recorder::target_reached() const {
  return reached_ ? target_.text() + kReachedAt + reached_->text() : "";
}

std::string Recorder::target_reached_before() const {
  if (!target_ || !results_) return "";
  const Table& eval = results_->table("eval");
  const auto row = target_.first_row(eval);
  if (!row) return "";
  return fmt::format("{}{}step {:.0f}", target_.text(), kReachedAt,
                     eval.column("step").values[*row]);
}

bool Recorder::is_target_of(const std::string& reached) const {
  return target_ && reached.starts_with(target_.text() + kReachedAt);
}

void Recorder::log_target(const Position& at) {
  if (!target_) return;
  session_.log().line("  target {} {}; judged every {} steps", target_.text(),
                      reached_ ? "reached at " + reached_->text()
                               : fmt::format("not reached by step {}", at.step),
                      engine_.plan.eval_every);
}

void Recorder::summarize_target() {
  if (!target_) return;
  results_->summary("target_reached", reached_ ? 1 : 0, "1",
                    "1: an evaluation reached run.target = " + target_.text());
  if (!reached_) return;
  const Spent& spent = *reached_;
  const std::string when = " when run.target was reached";
  results_->summary("target_step", static_cast<double>(spent.step), "1",
                    "worker_steps / number of workers" + when);
  results_->summary("target_epoch", spent.epoch, "1",
                    "passes over the training set" + when);
  results_->summary("target_time_s", spent.time_s, "s",
                    "wall time of training" + when);
  if (endpoint_.has_virtual_time())
    results_->summary("target_virtual_s", spent.virtual_s, "s",
                      "virtual time of the last worker" + when);
  results_->summary("target_bytes_sent", spent.bytes_sent, "byte",
                    "payload bytes sent by all workers" + when);
  results_->summary("target_samples", spent.samples, "1",
                    "samples seen in all" + when);
}

}  // namespace syncopate
