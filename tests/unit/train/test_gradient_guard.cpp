#include "train/gradient_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "run/session.h"
#include "support/scratch_folder.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr const char* kInput = R"(
[run]
steps = 1
threads = 1
device = cpu
[model]
family = resnet
depth = 8
[data]
kind = synthetic_images
samples = 8
test_samples = 4
classes = 2
height = 8
width = 8
batch = 4
[eval]
batch = 4
)";

class GradientGuardTest : public testing::Test {
 protected:
  void make(const std::string& on_nonfinite) {
    guard_.reset();  // before the device goes whose memory they have
    replica_.reset();
    const std::string input = folder_ / "in.ini";
    std::ofstream(input) << kInput;
    engine_ =
        build_engine(session_, input, {"--run.on_nonfinite=" + on_nonfinite});
    replica_ = std::make_unique<Replica>(*engine_->context, *engine_->model,
                                         engine_->options.optimizer);
    guard_ = std::make_unique<GradientGuard>(*engine_, *replica_);
    std::ranges::fill(replica_->gradients.span(), 1.0f);
    std::ranges::fill(replica_->buffers.span(), 0.5f);
  }
  int64_t elems() const { return replica_->gradients.size(); }
  bool all_are(std::span<const float> values, float wanted) const {
    return std::ranges::all_of(values,
                               [&](float value) { return value == wanted; });
  }

  ScratchFolder folder_;  // tests run side by side
  char name_[8] = "test";
  char* argv_[1] = {name_};
  Session session_{1, argv_};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<GradientGuard> guard_;
};

TEST_F(GradientGuardTest, LeavesAFiniteGradient) {
  make("stop");
  guard_->start(1);
  guard_->check(elems() / 2, elems() - elems() / 2);
  guard_->check(0, elems() / 2);
  guard_->finish();
  EXPECT_TRUE(all_are(replica_->gradients.span(), 1));
  EXPECT_FALSE(guard_->next_finding(true));
}

// Earlier buckets have been sent; this one and all later ones are withheld.
TEST_F(GradientGuardTest, WithholdsABucketAndThoseBehindIt) {
  make("stop");
  const int64_t third = elems() / 3;
  replica_->gradients.span()[static_cast<size_t>(third + 5)] = kNan;
  guard_->start(7);
  guard_->check(2 * third, elems() - 2 * third);
  guard_->check(third, third);
  guard_->check(0, third);
  guard_->finish();
  const std::span<float> all = replica_->gradients.span();
  EXPECT_TRUE(all_are(all.first(static_cast<size_t>(2 * third)), 0));
  EXPECT_TRUE(all_are(all.subspan(static_cast<size_t>(2 * third)), 1));
  const auto finding = guard_->next_finding(true);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->step, 7);
  EXPECT_EQ(finding->offset, third + 5);
  EXPECT_FALSE(guard_->next_finding(true));
}

TEST_F(GradientGuardTest, EachStepStartsAnew) {
  make("stop");
  for (int64_t step = 1; step <= 3; ++step) {
    std::ranges::fill(replica_->gradients.span(), 1.0f);
    if (step == 2) replica_->gradients.span()[0] = kNan;
    guard_->start(step);
    guard_->check(0, elems());
    guard_->finish();
    EXPECT_TRUE(all_are(replica_->gradients.span(), step == 2 ? 0 : 1));
  }
  const auto finding = guard_->next_finding(true);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->step, 2);
  EXPECT_FALSE(guard_->next_finding(true));
}

// A batch that spoils the gradient spoils running statistics too.
TEST_F(GradientGuardTest, SkippingRestoresRunningStatistics) {
  for (const bool is_bad : {false, true}) {
    make("skip");
    guard_->start(1);
    std::ranges::fill(replica_->buffers.span(), is_bad ? kNan : 0.25f);
    if (is_bad) replica_->gradients.span()[3] = kNan;
    guard_->check(0, elems());
    guard_->finish();
    EXPECT_TRUE(all_are(replica_->buffers.span(), is_bad ? 0.5f : 0.25f));
    EXPECT_EQ(guard_->next_finding(true).has_value(), is_bad);
  }
}

}  // namespace
}  // namespace syncopate
