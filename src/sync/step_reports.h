// The members of a group report their step times to rank 0, which judges them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/endpoint.h"

namespace syncopate {

// A report is one number to one worker, whatever the number of workers. All
// members call tell() equally often, and so does rank 0, whether or not it is a
// member; it calls received() before the next tell().
class StepReports {
 public:
  StepReports(Endpoint& endpoint, const Ranks& members);

  // Reports `step_s` seconds (0: unknown) without waiting for rank 0. The value
  // of a rank 0 that is no member is ignored.
  void tell(double step_s);
  // On rank 0, waits for the reports of the last tell() and returns them by
  // rank, with 0 for others than members; before any tell(), zeros. Elsewhere,
  // waits until this worker's own has been sent and returns nothing. Then
  // nothing is in flight.
  std::span<const double> received();

 private:
  Endpoint& endpoint_;
  bool is_member_ = false;
  std::vector<int> others_;  // rank 0: the other members
  double told_s_ = 0;
  std::vector<double> seconds_;  // rank 0: by rank
  std::vector<Request> in_flight_;
};

}  // namespace syncopate
