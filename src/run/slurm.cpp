#include "run/slurm.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <regex>

#include <fmt/core.h>

#include "base/child.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr double kPatience_s = 5;  // a busy slurmctld answers within seconds

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

double unix_time_s() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns the minimum of all lines: the components of a heterogeneous job end
// together.
SlurmTimeLeft time_left_of(const std::string& output) {
  SlurmTimeLeft left;
  for (const std::string& line : split(output, '\n')) {
    const std::string word(trim(line));
    if (word.empty()) continue;
    if (const auto seconds = parse_slurm_time(word))
      left.seconds = std::min(left.seconds.value_or(*seconds), *seconds);
    else if (left.from.empty())
      left.from = word == "UNLIMITED" ? kNoSlurmLimit
                                      : fmt::format("squeue says \"{}\"", word);
  }
  if (left.seconds)
    left.from = "squeue";
  else if (left.from.empty())
    left.from = "squeue says nothing";
  return left;
}

}  // namespace

std::string slurm_job() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  const std::string task = variable("SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty()) return array + "_" + task;
  return variable("SLURM_JOB_ID");
}

int slurm_tasks() {
  const auto number = [](const std::string& name) {
    return static_cast<int>(parse_int(variable(name.c_str())).value_or(0));
  };
  const int components = number("SLURM_HET_SIZE");
  if (components == 0) return number("SLURM_NTASKS");
  int tasks = 0;
  for (int i = 0; i < components; ++i) {
    const int own = number(fmt::format("SLURM_NTASKS_HET_GROUP_{}", i));
    if (own == 0) return 0;
    tasks += own;
  }
  return tasks;
}

int slurm_restarts() {
  return static_cast<int>(
      parse_int(variable("SLURM_RESTART_COUNT")).value_or(0));
}

std::optional<double> parse_slurm_time(std::string_view text) {
  static const std::regex form(
      "(?:(?:(\\d{1,6})-)?([01]?\\d|2[0-3]):)?([0-5]?\\d):([0-5]?\\d)");
  std::cmatch found;
  if (!std::regex_match(text.begin(), text.end(), found, form))
    return std::nullopt;
  const auto number = [&](int group) {  // 0 if it is absent
    return static_cast<double>(parse_int(found[group].str()).value_or(0));
  };
  return 86400 * number(1) + 3600 * number(2) + 60 * number(3) + number(4);
}

SlurmTimeLeft slurm_time_left() {
  if (const auto end = parse_int(variable("SLURM_JOB_END_TIME"))) {
    const double left = static_cast<double>(*end) - unix_time_s();
    if (left > 0) return {left, "SLURM_JOB_END_TIME"};
  }
  const ChildAnswer answer =
      run_child({"squeue", "-h", "-j", slurm_job(), "-o", "%L"}, kPatience_s);
  if (!answer.obstacle.empty()) return {std::nullopt, answer.obstacle};
  return time_left_of(answer.output);
}

SlurmJobState slurm_job_state(const std::string& job) {
  const ChildAnswer answer = run_child(
      {"squeue", "-h", "-t", "all", "-j", job, "-o", "%T"}, kPatience_s);
  if (!answer.obstacle.empty())
    return answer.errors.find("Invalid job id") != std::string::npos
               ? SlurmJobState::kGone
               : SlurmJobState::kUnknown;
  constexpr std::array kAlive = {"RUNNING",   "COMPLETING", "CONFIGURING",
                                 "SUSPENDED", "STOPPED",    "SIGNALING",
                                 "STAGE_OUT", "RESIZING"};
  for (const std::string& line : split(answer.output, '\n'))
    for (const char* state : kAlive)
      if (trim(line) == state) return SlurmJobState::kMayRun;
  return SlurmJobState::kGone;
}

}  // namespace syncopate
