#include <gtest/gtest.h>

#include "watch/operations.h"

namespace syncopate {
namespace {

using Kind = OperationLog::Kind;

TEST(Operations, TheLastIsTheNewestUnderWay) {
  OperationLog log;
  EXPECT_EQ(log.last(), "none");
  const uint64_t first = log.begin(Kind::kReceive, 2, 7, 4096);
  const uint64_t second = log.begin(Kind::kSend, 1, 7, 8);
  EXPECT_EQ(log.last(), "send of 8 bytes to rank 1, tag 7");
  log.end(second);
  EXPECT_EQ(log.last(), "receive of 4096 bytes from rank 2, tag 7");
  log.end(first);
  EXPECT_EQ(log.last(), "send of 8 bytes to rank 1, tag 7");
}

TEST(Operations, ATaskComesBeforeItsMessages) {
  OperationLog log;
  const uint64_t task = log.begin_task("all-reduce of a very long name");
  log.begin(Kind::kSend, 1, 7, 8);
  EXPECT_EQ(log.last(), "all-reduce of a very lo");
  log.end(task);
  EXPECT_EQ(log.last(), "send of 8 bytes to rank 1, tag 7");
}

TEST(Operations, KeepsTheLastOnes) {
  OperationLog log;
  const uint64_t lost = log.begin(Kind::kSend, 0, 0, 0);
  for (int i = 1; i <= static_cast<int>(OperationLog::kKept); ++i)
    log.begin(Kind::kSend, i, 0, i);
  log.end(lost);  // must not end the one in its place
  const std::vector<std::string> lines = log.lines();
  ASSERT_EQ(lines.size(), OperationLog::kKept);
  EXPECT_NE(lines.front().find("to rank 1,"), std::string::npos);
  for (const std::string& line : lines)
    EXPECT_NE(line.find("under way"), std::string::npos) << line;
}

}  // namespace
}  // namespace syncopate
