// Checks of `doctor`: the job of this process, and what Slurm will do to it.
#include <cstdlib>
#include <regex>

#include "base/child.h"
#include "base/text.h"
#include "machine/doctor.h"
#include "run/slurm.h"

namespace syncopate {
namespace {

constexpr double kPatience_s = 5;

// Returns the value of " NAME=value" or "NAME   = value" in scontrol's output.
std::string value_of(const std::string& text, const std::string& name) {
  const std::regex form("(?:^|[ \n])" + name + " *= *([^ \n]*)");
  std::smatch found;
  return std::regex_search(text, found, form) ? found[1].str() : "";
}

void check_time_left(DoctorReport& report) {
  const SlurmTimeLeft left = slurm_time_left();
  if (left.seconds)
    report.ok("time left", "{} ({}): a run writes its checkpoint before",
              human_seconds(*left.seconds), left.from);
  else if (left.from == kNoSlurmLimit)
    report.ok("time left", "{}", left.from);
  else
    report.note("time left",
                "not known ({}): only a signal stops a run in time: sbatch "
                "--signal=USR1@120, or run.time_limit_s",
                left.from);
}

void check_requeue(DoctorReport& report) {
  const ChildAnswer job =
      run_child({"scontrol", "-o", "show", "job", slurm_job()}, kPatience_s);
  if (!job.obstacle.empty())
    return report.note("requeue", "not known: {}", job.obstacle);
  if (value_of(job.output, "Requeue") == "1")
    report.ok("requeue", "allowed, {} so far", slurm_restarts());
  else
    report.note("requeue",
                "not allowed: sbatch --requeue lets Slurm start this job "
                "again after a node failed");
}

void check_endings(DoctorReport& report) {
  const ChildAnswer cluster =
      run_child({"scontrol", "show", "config"}, kPatience_s);
  if (!cluster.obstacle.empty())
    return report.note("slurm", "settings not known: {}", cluster.obstacle);
  // srun does not tell its tasks whether it was given the option.
  const char* asked = std::getenv("SLURM_KILL_BAD_EXIT");
  if (value_of(cluster.output, "KillOnBadExit") == "1" ||
      (asked && std::string(asked) != "0"))
    report.ok("bad exit", "Slurm ends the others when a rank dies");
  else
    report.note("bad exit",
                "on this cluster the other ranks continue when one dies: use "
                "srun --kill-on-bad-exit=1, as the scripts in jobs/ do");
  report.ok("kill wait",
            "{} s between SIGTERM (preemption, scancel) and SIGKILL: a "
            "checkpoint should take less",
            value_of(cluster.output, "KillWait"));
}

}  // namespace

void check_slurm(DoctorReport& report, const Session& session) {
  if (slurm_job().empty()) return report.note("slurm", "not inside a job");
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  report.ok("slurm", "job {}, {}", slurm_job(),
            nodes ? counted(parse_int(nodes).value_or(0), "node")
                  : "an unknown number of nodes");
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks && parse_int(tasks).value_or(1) > 1 && session.size() == 1)
    report.bad(ExitCode::kUsage, "pmi",
               "srun started {} tasks, each sees a world of 1: srun "
               "--mpi=pmi2 (srun --mpi=list)",
               tasks);
  check_time_left(report);
  check_requeue(report);
  check_endings(report);
}

}  // namespace syncopate
