#include "sync/step_reports.h"

#include "base/check.h"
#include "comm/tags.h"

namespace syncopate {

StepReports::StepReports(Endpoint& endpoint, const Ranks& members)
    : endpoint_(endpoint) {
  const int rank = endpoint.rank();
  if (rank == 0) seconds_.assign(endpoint.size(), 0);
  for (const int member : members) {
    if (member == rank)
      is_member_ = true;
    else if (rank == 0)
      others_.push_back(member);
  }
}

void StepReports::tell(double step_s) {
  CHECK(endpoint_.rank() != 0 || in_flight_.empty());
  received();
  if (endpoint_.rank() == 0) {
    for (const int member : others_)
      in_flight_.push_back(endpoint_.irecv({&seconds_[member], sizeof(double)},
                                           member, tags::kStepTime));
    if (is_member_) seconds_[0] = step_s;
  } else if (is_member_) {
    told_s_ = step_s;
    in_flight_.push_back(endpoint_.isend({&told_s_, sizeof told_s_}, 0,
                                         tags::kStepTime, Traffic::kControl));
  }
}

std::span<const double> StepReports::received() {
  for (Request& request : in_flight_) endpoint_.wait(std::move(request));
  in_flight_.clear();
  return seconds_;
}

}  // namespace syncopate
