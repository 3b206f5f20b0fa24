// What Slurm knows of the job this process is in, and of others: asked of its
// environment and of squeue.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace syncopate {

// "4711", or "4711_3" in an array; empty outside of a job. As squeue and
// scancel take it: an array's own id would mean all its tasks.
std::string slurm_job();
// How often Slurm has started this job anew.
int slurm_restarts();

// squeue's time left, D-HH:MM:SS, HH:MM:SS or MM:SS, in seconds; nullopt for
// any other text.
std::optional<double> parse_slurm_time(std::string_view text);

inline constexpr char kNoSlurmLimit[] = "Slurm sets this job no limit";

struct SlurmTimeLeft {
  std::optional<double> seconds;
  std::string from;  // who said so, or why it is not known
};
// Of this job, from SLURM_JOB_END_TIME, else from squeue, which is given 5 s.
SlurmTimeLeft slurm_time_left();

// Whether processes of a job may still be running.
enum class SlurmJobState { kMayRun, kGone, kUnknown };
SlurmJobState slurm_job_state(const std::string& job);

}  // namespace syncopate
