#include "comm/clock_offset.h"

#include <limits>

#include "comm/tags.h"

namespace syncopate {
namespace {

// The first questions find the other rank asleep.
constexpr int kQuestions = 50;

ClockOffset ask(Endpoint& endpoint, int rank) {
  ClockOffset best{.error_s = std::numeric_limits<double>::infinity()};
  for (int i = 0; i < kQuestions; ++i) {
    Time there = 0;
    const Request answer =
        endpoint.irecv({&there, sizeof there}, rank, tags::kProbeAnswer);
    const Time sent = endpoint.now();
    endpoint.wait(endpoint.isend({}, rank, tags::kProbe, Traffic::kControl));
    endpoint.wait(answer);
    const Time back = endpoint.now();
    if ((back - sent) / 2 < best.error_s)
      best = {(sent + back) / 2 - there, (back - sent) / 2};
  }
  return best;
}

void answer(Endpoint& endpoint) {
  for (int i = 0; i < kQuestions; ++i) {
    endpoint.wait(endpoint.irecv({}, 0, tags::kProbe));
    const Time here = endpoint.now();
    endpoint.wait(endpoint.isend({&here, sizeof here}, 0, tags::kProbeAnswer,
                                 Traffic::kControl));
  }
}

}  // namespace

ClockOffset measure_clock(Endpoint& endpoint) {
  const TrafficCounters before = endpoint.traffic();
  ClockOffset mine;
  endpoint.perform([&](Endpoint& here) {
    if (here.rank() != 0) {
      answer(here);
      here.wait(here.irecv({&mine, sizeof mine}, 0, tags::kProbeAnswer + 1));
      return;
    }
    for (int rank = 1; rank < here.size(); ++rank) {
      const ClockOffset offset = ask(here, rank);
      here.wait(here.isend({&offset, sizeof offset}, rank,
                           tags::kProbeAnswer + 1, Traffic::kControl));
    }
  });
  endpoint.traffic() = before;
  return mine;
}

}  // namespace syncopate
