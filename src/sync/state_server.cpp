#include "sync/state_server.h"

#include <algorithm>

#include "tensor/visit_numbers.h"

namespace syncopate {

namespace {

// A step that fits exactly may seem not to: sums of times are off by a few
// 1e-16 of the clock. This allows for clocks of 10^9 steps.
constexpr double kRounding = 1e-6;

}  // namespace

StateServer::StateServer(int workers, double epsilon_s, double epsilon_steps)
    : epsilon_s_(epsilon_s),
      epsilon_steps_(epsilon_steps),
      records_(workers),
      step_s_(workers, 0.0) {}

void StateServer::begin() {
  round_ = kNone;
  std::fill(records_.begin(), records_.end(), Record{});
}

void StateServer::set_clock(Time now) {
  for (Record& record : records_) record.finished_at = now;
}

int StateServer::slowest() {
  if (by_speed_.empty())
    for (size_t rank = 0; rank < step_s_.size(); ++rank)
      by_speed_.emplace(-step_s_[rank], static_cast<int>(rank));
  return by_speed_.begin()->second;
}

bool StateServer::query(int rank,
                        int64_t local_steps,
                        double step_s,
                        Time now) {
  Record& mine = records_[rank];
  mine.finished_at = now;
  if (by_speed_.erase({-step_s_[rank], rank}) > 0)
    by_speed_.emplace(-step_s, rank);
  step_s_[rank] = step_s;
  if (local_steps == 0) return false;
  const int s = slowest();
  const Record& last = records_[s];
  if (last.round != round_) return false;
  const double rest = last.finished_at + step_s_[s] - now;
  const double epsilon = epsilon_s_ + epsilon_steps_ * step_s;
  mine.is_ready = rank == s || last.is_ready ||
                  step_s + epsilon > rest + kRounding * step_s_[s];
  return mine.is_ready;
}

void StateServer::reset(int rank, int64_t round, Time now) {
  if (round != round_) {
    round_ = round;
    for (Record& record : records_) record.is_ready = false;
  }
  records_[rank].round = round;
  records_[rank].finished_at = now;
}

void StateServer::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "esync/step_s", std::span(step_s_));
  by_speed_.clear();
}

void StateServer::visit_round(StateVisitor& visitor, bool has_virtual_time) {
  std::vector<double> finished_at;
  std::vector<int64_t> rounds, are_ready;
  for (const Record& record : records_) {
    finished_at.push_back(has_virtual_time ? record.finished_at : 0);
    rounds.push_back(record.round);
    are_ready.push_back(record.is_ready);
  }
  visit_number(visitor, Owner::kWorker, "esync/server_round", round_);
  visitor.visit(Owner::kWorker, "esync/finished_at", std::span(finished_at));
  visitor.visit(Owner::kWorker, "esync/rounds", std::span(rounds));
  visitor.visit(Owner::kWorker, "esync/are_ready", std::span(are_ready));
  for (size_t rank = 0; rank < records_.size(); ++rank)
    records_[rank] = {finished_at[rank], are_ready[rank] != 0, rounds[rank]};
}

}  // namespace syncopate
