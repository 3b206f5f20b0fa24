// Keys of a run's checks, and of the faults by which they are tested.
#include "config/key_sections.h"

namespace syncopate {

Keys watch_keys() {
  return may_all_change(not_negative({
      {.name = "run.watchdog",
       .place = &RunOptions::watchdog,
       .doc = "Under MPI: ranks monitor each other. If one dies, is "
              "stopped or hangs, the run ends with code 71."},
      {.name = "run.step_timeout_s",
       .place = &RunOptions::step_timeout_s,
       .doc = "Seconds without progress of a step that count as a hang; "
              "0: ten times the median step, but at least 30."},
      {.name = "run.io_timeout_s",
       .place = &RunOptions::io_timeout_s,
       .doc = "The same for reading data, evaluations, checkpoints and "
              "the end of the run.",
       .is_low_open = true},
      {.name = "run.on_nonfinite",
       .place = &RunOptions::on_nonfinite,
       .doc = "Response to a NaN or infinite gradient or loss: end with "
              "code 76, or omit that worker's gradient from the step "
              "and count it (nothing is then sent before backward is "
              "complete)."},
      {.name = "run.audit",
       .place = &RunOptions::audit,
       .doc = "Interval of audits, which compare replicas by a hash; if "
              "one differs, the run ends with code 70. Evaluations and "
              "checkpoints are audited too; under asp, ssp, esync and "
              "sync_switch only these. 0: no audits.",
       .used_when = {{"sync.scheme", {}, "equal replicas"}}},
  }));
}

Keys fault_keys() {
  const std::vector<UsedWhen> with_fault = {
      {"faults.kind", {"kill", "stop", "hang", "nan", "flip"}}};
  return may_all_change(not_negative({
      {.name = "faults.kind",
       .place = &FaultOptions::kind,
       .doc = "A fault to inject, as a test of this machine and its "
              "jobs: SIGKILL, SIGSTOP or an endless wait of one rank, "
              "NaN in a gradient, a flipped bit in a parameter."},
      {.name = "faults.rank",
       .place = &FaultOptions::rank,
       .doc = "The worker at which the fault is injected.",
       .used_when = with_fault},
      {.name = "faults.stage",
       .place = &FaultOptions::stage,
       .doc = "The stage that the worker is about to begin when the "
              "fault is injected.",
       .used_when = {{"faults.kind", {"kill", "stop", "hang"}}}},
      {.name = "faults.step",
       .place = &FaultOptions::step,
       .doc = "The worker's own step at which the fault is injected, or "
              "the first opportunity after it; for nan and flip, steps "
              "count from 1.",
       .used_when = with_fault},
  }));
}

}  // namespace syncopate
