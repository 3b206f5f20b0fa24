// Queries Slurm, through the environment and squeue, about this process's job
// and others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace syncopate {

// Returns "4711", or "4711_3" in a job array; empty outside a job. This is the
// form that squeue and scancel take: an array's id alone names all its tasks.
std::string slurm_job();
// Returns the number of tasks that srun starts in this job, over all components
// of a heterogeneous one; 0 outside a job, or if Slurm does not say.
int slurm_tasks();
// Returns how often Slurm has restarted this job.
int slurm_restarts();

// Parses squeue's time left, D-HH:MM:SS, HH:MM:SS or MM:SS. Returns seconds, or
// nullopt for any other text.
std::optional<double> parse_slurm_time(std::string_view text);

inline constexpr char kNoSlurmLimit[] = "Slurm sets this job no limit";

struct SlurmTimeLeft {
  std::optional<double> seconds;
  std::string from;  // the source, or why the time is unknown
};
// Returns the time left for this job, from SLURM_JOB_END_TIME, else from
// squeue, with a timeout of 5 s.
SlurmTimeLeft slurm_time_left();

// States whether processes of a job may still be running.
enum class SlurmJobState { kMayRun, kGone, kUnknown };
SlurmJobState slurm_job_state(const std::string& job);

}  // namespace syncopate
