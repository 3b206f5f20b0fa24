#include "base/memory_left.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <limits>

#include "support/scratch_folder.h"

namespace syncopate {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// Control groups as files in a folder of the test's own.
class ControlGroups : public testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  int64_t left() {
    return cgroup_memory_left(root_ / "membership", root_.path()).bytes;
  }
  ScratchFolder root_;
};

TEST_F(ControlGroups, NoneIsNoLimit) {
  EXPECT_EQ(left(), kNone);
  write("membership", "3:cpuset:/\n0::/job\n");
  EXPECT_EQ(left(), kNone);
}

TEST_F(ControlGroups, TheTightestOfTheGroupsAbove) {
  write("membership", "0::/slurm/job\n");
  write("slurm/job/memory.max", "max\n");
  write("slurm/job/memory.current", "100\n");
  EXPECT_EQ(left(), kNone);
  write("slurm/memory.max", "5000\n");
  write("slurm/memory.current", "3000\n");
  EXPECT_EQ(left(), 2000);
  write("slurm/memory.stat",
        "anon 100\nfile 700\ninactive_file 300\nactive_file 200\n");
  EXPECT_EQ(left(), 2500);
  write("slurm/job/memory.max", "600\n");
  EXPECT_EQ(left(), 500);
  write("slurm/job/memory.current", "700\n");
  EXPECT_EQ(left(), 0);
}

TEST_F(ControlGroups, VersionOne) {
  write("membership", "4:memory:/docker/x\n2:cpu,cpuacct:/\n");
  // Inside a container the path is of the host's tree: only the root is there.
  write("memory/memory.limit_in_bytes", "9000\n");
  write("memory/memory.usage_in_bytes", "4000\n");
  write("memory/memory.stat",
        "total_inactive_file 600\ntotal_active_file 400\nactive_file 7\n");
  EXPECT_EQ(left(), 6000);
}

TEST_F(ControlGroups, VersionOneWithoutALimitAndPagesCountedLate) {
  write("membership", "4:memory:/\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "40000\n");
  write("memory/memory.stat",
        "total_inactive_file 60000\ntotal_active_file 400\n");
  EXPECT_GT(left(), int64_t{1} << 60);
}

TEST(MemoryLeft, SharesWhatProcessesHaveInCommon) {
  const MemoryLeft one = host_memory_left(1), four = host_memory_left(4);
  EXPECT_GT(one.bytes, 0);
  EXPECT_LT(one.bytes, kNone);
  EXPECT_LT(four.bytes, one.bytes / 3);  // others take and give back meanwhile
}

TEST(MemoryLeft, OwnLimits) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more than any limit of memory leaves";
#endif
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = rlim_t{1} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &tight), 0);
  const MemoryLeft left = host_memory_left(1);
  setrlimit(RLIMIT_DATA, &before);
  EXPECT_EQ(left.limit, "ulimit -d");
  EXPECT_LT(left.bytes, int64_t{1} << 30);
  EXPECT_GT(left.bytes, int64_t{1} << 28);
}

}  // namespace
}  // namespace syncopate
