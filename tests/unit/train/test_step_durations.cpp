#include "train/step_durations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

Options of_law(StepLaw law, double spread) {
  Options options;
  options.run.seed = 5;
  options.compute.step_s = 2;
  options.compute.law = law;
  options.compute.spread = spread;
  return options;
}

struct Moments {
  double mean = 0, deviation = 0, skewness = 0;
};

Moments moments_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const double value : values) moments.mean += value / n;
  double square = 0, cube = 0;
  for (const double value : values) {
    square += std::pow(value - moments.mean, 2) / n;
    cube += std::pow(value - moments.mean, 3) / n;
  }
  moments.deviation = std::sqrt(square);
  moments.skewness = cube / std::pow(square, 1.5);
  return moments;
}

// With mean m and relative spread c, a gamma variate has skewness 2 c and a
// log-normal one (c^2 + 3) c.
TEST(StepDurations, FollowTheirLaw) {
  for (const double spread : {0.05, 0.4, 1.25}) {
    for (const StepLaw law : {StepLaw::kLognormal, StepLaw::kGamma}) {
      const StepDurations times(of_law(law, spread), 1, nullptr);
      std::vector<double> drawn;
      for (int64_t step = 0; step < 200'000; ++step)
        drawn.push_back(times.seconds(step));
      const Moments moments = moments_of(drawn);
      EXPECT_NEAR(moments.mean, 2, 0.02 * spread)
          << name_of(law) << " " << spread;
      EXPECT_NEAR(moments.deviation / 2, spread, 0.03 * spread)
          << name_of(law) << " " << spread;
      if (spread > 1) continue;  // too few draws for the tail
      const double skewness =
          law == StepLaw::kGamma ? 2 * spread : (spread * spread + 3) * spread;
      EXPECT_NEAR(moments.skewness, skewness, 0.1 * skewness + 0.02)
          << name_of(law) << " " << spread;
    }
  }
}

TEST(StepDurations, DependOnSeedWorkerAndStepAlone) {
  const Options options = of_law(StepLaw::kLognormal, 0.1);
  Options other = options;
  other.run.seed = 6;
  const StepDurations first(options, 0, nullptr), second(options, 1, nullptr);
  EXPECT_EQ(first.seconds(7), StepDurations(options, 0, nullptr).seconds(7));
  EXPECT_NE(first.seconds(7), first.seconds(8));
  EXPECT_NE(first.seconds(7), second.seconds(7));
  EXPECT_NE(first.seconds(7), StepDurations(other, 0, nullptr).seconds(7));
}

class StepTraces : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = folder_ / "steps.csv";
    std::ofstream(path) << text;
    return path;
  }
  // Without the path in front.
  std::string mistake(const std::string& text, int workers, int64_t steps) {
    const Error error =
        error_of([&] { RecordedDurations(file(text), workers, steps); });
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    const std::string line = error.what();
    return line.substr(line.find(": ") + 2);
  }

  ScratchFolder folder_;
};

TEST_F(StepTraces, AreReadByWorkerAndStep) {
  const RecordedDurations each(
      file("# seconds\nfirst, second\n0.5,1\n\n2, 4e-1\n"), 2, 2);
  EXPECT_EQ(each.seconds(0, 0), 0.5);
  EXPECT_EQ(each.seconds(1, 0), 1);
  EXPECT_EQ(each.seconds(0, 1), 2);
  EXPECT_EQ(each.seconds(1, 1), 0.4);
  EXPECT_EQ(each.seconds(1, 2), 1);  // begins again
  const RecordedDurations all(file("3\n5\n"), 4, 2);
  EXPECT_EQ(all.seconds(2, 1), 5);

  Options options = of_law(StepLaw::kTrace, 0);
  options.compute.speed = {1, 4};
  EXPECT_EQ(StepDurations(options, 1, &each).seconds(0), 0.25);
}

TEST_F(StepTraces, MistakesAreNamedByLine) {
  EXPECT_EQ(mistake("1,2,3\n", 2, 1),
            "line 1: expected one number or 2, one for each worker");
  EXPECT_EQ(mistake("a,b\n1,2\n1\n", 2, 1),
            "line 3: expected one number or 2, one for each worker");
  EXPECT_EQ(mistake("1,2\n1,x\n", 2, 1),
            "line 2: expected one number or 2, one for each worker");
  EXPECT_EQ(mistake("a\nb\n", 2, 1),
            "line 2: expected one number or 2, one for each worker");
  EXPECT_EQ(mistake("1\n-2\n", 2, 1), "line 2: expected seconds > 0, found -2");
  const std::string short_one = mistake("1\n2\n", 2, 3);
  EXPECT_TRUE(short_one.ends_with(
      "has 2 rows, expected one for each of the run's 3 steps"))
      << short_one;
  EXPECT_THROW(RecordedDurations("/nowhere.csv", 1, 1), Error);
}

}  // namespace
}  // namespace syncopate
