#include "run/slurm.h"

#include <gtest/gtest.h>

#include <chrono>

#include "fake_slurm.h"
#include "run/time_limit.h"

namespace syncopate {
namespace {

TEST(SlurmTime, HasThreeForms) {
  EXPECT_EQ(parse_slurm_time("0:00"), 0);
  EXPECT_EQ(parse_slurm_time("01:05"), 65);
  EXPECT_EQ(parse_slurm_time("2:03:04"), 7384);
  EXPECT_EQ(parse_slurm_time("23:59:59"), 86399);
  EXPECT_EQ(parse_slurm_time("1-00:00:00"), 86400);
  EXPECT_EQ(parse_slurm_time("10-01:02:03"), 867723);
}

TEST(SlurmTime, AnythingElseIsNone) {
  for (const char* text :
       {"", "UNLIMITED", "NOT_SET", "INVALID", "5", "1-00", "1-00:00",
        "1:2:3:4", "60:00", "0:60", "24:00:00", "-1:00", "1:-1", "+1:00",
        "1:00 x", ":", "1--2:00:00", "9999999999-00:00:00",
        "99999999999999999999:00"})
    EXPECT_FALSE(parse_slurm_time(text)) << text;
}

TEST(SlurmJob, OfAnArrayIsItsTask) {
  FakeSlurm slurm;
  EXPECT_EQ(slurm_job(), "");
  slurm.set("SLURM_JOB_ID", "12");
  EXPECT_EQ(slurm_job(), "12");
  slurm.set("SLURM_ARRAY_JOB_ID", "10");
  slurm.set("SLURM_ARRAY_TASK_ID", "2");
  EXPECT_EQ(slurm_job(), "10_2");
}

TEST(SlurmTimeLeft, IsSqueuesLeast) {
  FakeSlurm slurm;
  slurm.set("SLURM_JOB_ID", "12");
  slurm.squeue("[ \"$*\" = '-h -j 12 -o %L' ] && printf '10:00\\n9:30\\n'");
  const SlurmTimeLeft left = slurm_time_left();
  EXPECT_EQ(left.seconds, 570);
  EXPECT_EQ(left.from, "squeue");
}

TEST(SlurmTimeLeft, SaysWhyItIsNotKnown) {
  FakeSlurm slurm;
  slurm.set("SLURM_JOB_ID", "12");
  const auto reason = [&](const std::string& script) {
    slurm.squeue(script);
    const SlurmTimeLeft left = slurm_time_left();
    EXPECT_FALSE(left.seconds) << script;
    return left.from;
  };
  EXPECT_EQ(reason("echo UNLIMITED"), kNoSlurmLimit);
  EXPECT_EQ(reason("echo NOT_SET"), "squeue says \"NOT_SET\"");
  EXPECT_EQ(reason("echo INVALID"), "squeue says \"INVALID\"");
  EXPECT_EQ(reason("true"), "squeue says nothing");
  EXPECT_EQ(reason("echo 'slurm_load_jobs error: x' >&2; exit 1"),
            "slurm_load_jobs error: x");
}

TEST(SlurmTimeLeft, EnvironmentComesFirstUnlessItIsOld) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  FakeSlurm slurm;
  slurm.set("SLURM_JOB_ID", "12");
  slurm.squeue("echo 7:00");
  slurm.set("SLURM_JOB_END_TIME", std::to_string(now + 100));
  SlurmTimeLeft left = slurm_time_left();
  EXPECT_EQ(left.from, "SLURM_JOB_END_TIME");
  EXPECT_NEAR(*left.seconds, 100, 2);
  slurm.set("SLURM_JOB_END_TIME", std::to_string(now - 100));
  EXPECT_EQ(slurm_time_left().seconds, 420);
}

TEST(SlurmJobState, IsGoneWhenSqueueKnowsItNoMore) {
  FakeSlurm slurm;
  const auto state = [&](const std::string& script) {
    slurm.squeue(script);
    return slurm_job_state("7");
  };
  EXPECT_EQ(state("echo RUNNING"), SlurmJobState::kMayRun);
  EXPECT_EQ(state("echo COMPLETING"), SlurmJobState::kMayRun);
  EXPECT_EQ(state("echo PENDING"), SlurmJobState::kGone);
  EXPECT_EQ(state("echo CANCELLED"), SlurmJobState::kGone);
  EXPECT_EQ(state("true"), SlurmJobState::kGone);
  EXPECT_EQ(state("echo 'slurm_load_jobs error: Invalid job id specified' >&2;"
                  "exit 1"),
            SlurmJobState::kGone);
  EXPECT_EQ(state("echo 'Unable to contact slurm controller' >&2; exit 1"),
            SlurmJobState::kUnknown);
}

class TimeLimitTest : public testing::Test {
 protected:
  TimeLimit limit(double own_s) { return TimeLimit(session_, own_s); }
  FakeSlurm slurm_;

 private:
  char name_[10] = "syncopate";
  char* argv_[2] = {name_, nullptr};
  Session session_{1, argv_};
};

TEST_F(TimeLimitTest, NoneIsNeverNear) {
  slurm_.squeue("echo 0:01");  // not asked outside of a job
  TimeLimit none = limit(0);
  EXPECT_FALSE(none.is_near(1e9));
  EXPECT_EQ(none.description(), "");
  EXPECT_EQ(none.too_late(1e9), "");
  EXPECT_EQ(none.needs_signal(1e9), "");
}

TEST_F(TimeLimitTest, NearerOneCounts) {
  slurm_.set("SLURM_JOB_ID", "12");
  slurm_.squeue("echo 1:40");
  TimeLimit slurms = limit(1000);
  EXPECT_EQ(slurms.description(), "Slurm ends this job in 1:40 (squeue)");
  EXPECT_FALSE(slurms.is_near(90));
  EXPECT_TRUE(slurms.is_near(96));  // 5 s are reserved for the launcher
  TimeLimit own = limit(50);
  EXPECT_EQ(own.description().find("run.time_limit_s ends this run in "), 0u);
  EXPECT_FALSE(own.is_near(45));
  EXPECT_TRUE(own.is_near(50));
}

TEST_F(TimeLimitTest, SaysOnceThatACheckpointDoesNotFit) {
  TimeLimit own = limit(50);
  EXPECT_EQ(own.too_late(10), "");
  EXPECT_NE(own.too_late(60).find("about 1:00, "), std::string::npos);
  EXPECT_EQ(own.too_late(60), "");
}

TEST_F(TimeLimitTest, UnknownEndWantsASignalInTime) {
  slurm_.set("SLURM_JOB_ID", "12");
  slurm_.squeue("echo no controller >&2; exit 1");
  TimeLimit blind = limit(0);
  EXPECT_NE(blind.description().find("no controller"), std::string::npos);
  EXPECT_FALSE(blind.is_near(1e9));
  EXPECT_EQ(blind.needs_signal(20), "");
  EXPECT_NE(blind.needs_signal(200).find("--signal=USR1@205"),
            std::string::npos);
  EXPECT_EQ(blind.needs_signal(200), "");
  slurm_.squeue("echo UNLIMITED");
  TimeLimit unlimited = limit(0);
  EXPECT_EQ(unlimited.description(), kNoSlurmLimit);
  EXPECT_EQ(unlimited.needs_signal(200), "");
}

}  // namespace
}  // namespace syncopate
