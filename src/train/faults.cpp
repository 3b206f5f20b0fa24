#include "train/faults.h"

#include <signal.h>

#include <chrono>
#include <thread>

namespace syncopate {

bool Faults::is_due(int64_t step) const {
  return is_mine_ && !has_struck_ && step >= options_.step;
}

void Faults::strike(Stage stage, int64_t step) {
  if (!is_due(step) || options_.stage != stage) return;
  const bool is_hang = options_.kind == FaultKind::kHang;
  const bool is_kill = options_.kind == FaultKind::kKill;
  const bool is_stop = options_.kind == FaultKind::kStop;
  if (!is_stop && !is_kill && !is_hang) return;
  // Long enough for the other ranks to learn this one's stage.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (is_kill) raise(SIGKILL);
  has_struck_ = true;
  if (is_stop) raise(SIGSTOP);
  while (is_hang) std::this_thread::sleep_for(std::chrono::seconds(1));
}

bool Faults::spoils(FaultKind kind, int64_t step) {
  if (!is_due(step) || options_.kind != kind) return false;
  has_struck_ = true;
  return true;
}

}  // namespace syncopate
