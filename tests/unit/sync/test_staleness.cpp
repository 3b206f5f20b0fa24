#include "sync/staleness.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

// 4 N values and those above, in at most 1024 columns and one.
TEST(Staleness, HasAColumnPerValueForUpTo256Workers) {
  for (const int workers : {1, 4, 256}) {
    Staleness staleness(workers);
    const std::vector<SeriesInfo> series = staleness.series();
    ASSERT_EQ(series[2].width, 4 * workers + 1);
    for (const int64_t value : {int64_t{0}, 4 * int64_t{workers} - 1})
      staleness.note(value);
    staleness.note(4 * workers);
    staleness.note(1'000'000);
    const std::vector<double> values = staleness.take();
    EXPECT_EQ(values[2], 1);
    EXPECT_EQ(values[2 + 4 * workers - 1], 1);
    EXPECT_EQ(values.back(), 2);
  }
}

TEST(Staleness, SharesColumnsAmongValuesForMoreWorkers) {
  Staleness staleness(1024);  // 4096 values, 4 to a column
  const std::vector<SeriesInfo> series = staleness.series();
  ASSERT_EQ(series[2].width, 1025);
  EXPECT_NE(series[2].description.find("4 values to a column"),
            std::string::npos);
  for (const int64_t value : {0, 3, 4, 4095, 4096}) staleness.note(value);
  const std::vector<double> values = staleness.take();
  EXPECT_EQ(values[0], (0 + 3 + 4 + 4095 + 4096) / 5.0);
  EXPECT_EQ(values[1], 4096);
  EXPECT_EQ(values[2], 2);
  EXPECT_EQ(values[3], 1);
  EXPECT_EQ(values[2 + 1023], 1);
  EXPECT_EQ(values[2 + 1024], 1);
  EXPECT_EQ(Staleness(10'000).series()[2].width, 1001);
}

}  // namespace
}  // namespace syncopate
