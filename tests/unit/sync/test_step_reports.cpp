#include "sync/step_reports.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "comm/world.h"

namespace syncopate {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr int kWorkers = 5, kSteps = 3;

// What rank 0 receives of members that report 10 * step + rank, starting with
// what it has before the first report.
Rows received_from(const std::vector<int>& members) {
  Rows rows;
  make_inproc_world(kWorkers, {})->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    StepReports reports(endpoint, Ranks(members));
    for (int step = 0; step <= kSteps; ++step) {
      const std::span<const double> seconds = reports.received();
      if (rank == 0)
        rows.emplace_back(seconds.begin(), seconds.end());
      else
        EXPECT_TRUE(seconds.empty());
      if (step == kSteps) break;
      endpoint.advance(kWorkers - rank);  // the last rank is the first to tell
      reports.tell(10 * step + rank);
    }
  });
  return rows;
}

TEST(StepReports, RankZeroReceivesThoseOfAllMembersInTheirOrder) {
  EXPECT_EQ(received_from({0, 1, 2, 3, 4}), (Rows{{0, 0, 0, 0, 0},
                                                  {0, 1, 2, 3, 4},
                                                  {10, 11, 12, 13, 14},
                                                  {20, 21, 22, 23, 24}}));
  EXPECT_EQ(received_from({0, 3}), (Rows{{0, 0, 0, 0, 0},
                                         {0, 0, 0, 3, 0},
                                         {10, 0, 0, 13, 0},
                                         {20, 0, 0, 23, 0}}));
}

TEST(StepReports, RankZeroNeedNotBeAMember) {
  EXPECT_EQ(received_from({1, 4}), (Rows{{0, 0, 0, 0, 0},
                                         {0, 1, 0, 0, 4},
                                         {0, 11, 0, 0, 14},
                                         {0, 21, 0, 0, 24}}));
}

}  // namespace
}  // namespace syncopate
