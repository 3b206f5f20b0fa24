#include "app/time_limit.h"

#include "base/clock.h"

namespace syncopate {

TimeLimit::TimeLimit(const Session& session, double limit_s)
    : end_s_(limit_s > 0 ? session.started_s() + limit_s : 0) {}

bool TimeLimit::is_near(double needed_s) const {
  return end_s_ > 0 && monotonic_s() + needed_s >= end_s_;
}

}  // namespace syncopate
