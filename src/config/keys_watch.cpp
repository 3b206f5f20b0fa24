// Keys of a run's checks, and of the faults by which they are tested.
#include "config/key_sections.h"

namespace syncopate {

Keys watch_keys() {
  return {
      {.name = "run.watchdog",
       .place = &RunOptions::watchdog,
       .doc = "Under MPI: ranks watch over each other, and one that died, is "
              "stopped or hangs ends the run with code 71.",
       .on_resume = OnResume::kMayChange},
      {.name = "run.step_timeout_s",
       .place = &RunOptions::step_timeout_s,
       .doc = "Seconds without progress of a step that count as a hang; 0: "
              "ten times the median step, 30 at least.",
       .low = 0,
       .on_resume = OnResume::kMayChange},
      {.name = "run.io_timeout_s",
       .place = &RunOptions::io_timeout_s,
       .doc = "The same of reading data, an evaluation, a checkpoint or the "
              "end.",
       .low = 0,
       .is_low_open = true,
       .on_resume = OnResume::kMayChange},
      {.name = "run.on_nonfinite",
       .place = &RunOptions::on_nonfinite,
       .doc = "A gradient or loss that is NaN or infinite: end with code 76, "
              "or leave that worker's gradient out of its step and count it "
              "(nothing is then sent before backward has ended).",
       .on_resume = OnResume::kMayChange},
      {.name = "run.audit",
       .place = &RunOptions::audit,
       .doc = "Distance of audits: replicas are compared by a hash, and one "
              "that differs ends the run with code 70; also at evaluations "
              "and checkpoints, and under asp, ssp, esync and sync_switch "
              "only there. 0: none.",
       .low = 0,
       .used_when = {{"sync.scheme", {}, "equal replicas"}},
       .on_resume = OnResume::kMayChange},
  };
}

Keys fault_keys() {
  const std::vector<UsedWhen> with_fault = {
      {"faults.kind", {"kill", "stop", "hang", "nan", "flip"}}};
  return {
      {.name = "faults.kind",
       .place = &FaultOptions::kind,
       .doc = "A fault to try this machine and its jobs with: SIGKILL, "
              "SIGSTOP or an endless wait of one rank, NaN in a gradient, a "
              "flipped bit in a parameter.",
       .on_resume = OnResume::kMayChange},
      {.name = "faults.rank",
       .place = &FaultOptions::rank,
       .doc = "The worker to which it happens.",
       .low = 0,
       .used_when = with_fault,
       .on_resume = OnResume::kMayChange},
      {.name = "faults.stage",
       .place = &FaultOptions::stage,
       .doc = "What that worker is about to begin when it happens.",
       .used_when = {{"faults.kind", {"kill", "stop", "hang"}}},
       .on_resume = OnResume::kMayChange},
      {.name = "faults.step",
       .place = &FaultOptions::step,
       .doc = "The worker's own step at which it happens, or the first time "
              "after it; for nan and flip, steps count from 1.",
       .low = 0,
       .used_when = with_fault,
       .on_resume = OnResume::kMayChange},
  };
}

}  // namespace syncopate
