#include "run/time_limit.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/text.h"
#include "run/slurm.h"

namespace syncopate {
namespace {

// Time for MPI, the launcher and the job script to end before Slurm kills them.
constexpr double kLauncher_s = 5;
// Slurm's default KillWait, between SIGTERM and SIGKILL: all the time that a
// run has without an earlier warning.
constexpr double kKillWait_s = 30;

}  // namespace

// Each rank judges by its own steps, which may take longer than rank 0's.
TimeLimit::TimeLimit(Session& session, double limit_s) {
  if (limit_s > 0) {
    end_s_ = session.started_s() + limit_s;
    description_ = fmt::format("run.time_limit_s ends this run in {}",
                               human_seconds(left_s()));
  }
  if (session.rank() == 0 && !slurm_job().empty()) ask_slurm(limit_s);
  const std::string left = session.share(fmt::format("{}", left_s()));
  end_s_ =
      std::min(end_s_, monotonic_s() + parse_double(left).value_or(kNever));
}

void TimeLimit::ask_slurm(double limit_s) {
  const SlurmTimeLeft slurm = slurm_time_left();
  if (!slurm.seconds) {
    if (limit_s > 0) return;
    is_blind_ = slurm.from != kNoSlurmLimit;
    description_ = is_blind_
                       ? fmt::format(
                             "the time at which Slurm ends this job is unknown "
                             "({}): only Slurm's signal stops this run in time",
                             slurm.from)
                       : kNoSlurmLimit;
    return;
  }
  const double end_s = monotonic_s() + *slurm.seconds - kLauncher_s;
  if (end_s >= end_s_) return;
  end_s_ = end_s;
  description_ = fmt::format("Slurm ends this job in {} ({})",
                             human_seconds(*slurm.seconds), slurm.from);
}

double TimeLimit::left_s() const {
  return end_s_ - monotonic_s();
}

bool TimeLimit::is_near(double needed_s) const {
  return left_s() <= needed_s;
}

std::string TimeLimit::too_late(double expected_s) {
  if (has_said_late_ || left_s() >= expected_s) return {};
  has_said_late_ = true;
  return fmt::format(
      "there may be no time for a checkpoint: it takes about {}, and {} are "
      "left",
      human_seconds(expected_s), human_seconds(std::max(0.0, left_s())));
}

std::string TimeLimit::needs_signal(double needed_s) {
  if (has_said_blind_ || !is_blind_ || needed_s <= kKillWait_s) return {};
  has_said_blind_ = true;
  return fmt::format(
      "stopping takes about {}, and the end of this job is unknown: request a "
      "signal that long before it (sbatch --signal=USR1@{:.0f})",
      human_seconds(needed_s), std::ceil(needed_s + kLauncher_s));
}

}  // namespace syncopate
