#include "base/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"

namespace syncopate {
namespace {

ChildAnswer shell(const std::string& script, double timeout_s = 10) {
  return run_child({"sh", "-c", script}, timeout_s);
}

TEST(Child, AnswersOnBothStreams) {
  const ChildAnswer answer = shell("echo one; echo two >&2");
  EXPECT_EQ(answer.output, "one\n");
  EXPECT_EQ(answer.errors, "two\n");
  EXPECT_EQ(answer.obstacle, "");
}

TEST(Child, FailureIsItsFirstLineOfErrors) {
  EXPECT_EQ(shell("echo no such job >&2; echo more >&2; exit 1").obstacle,
            "no such job");
  EXPECT_EQ(shell("exit 3").obstacle, "sh: failed");
}

TEST(Child, MissingProgramIsAnObstacle) {
  EXPECT_EQ(run_child({"no-such-program-here"}, 1).obstacle,
            "no-such-program-here: No such file or directory");
}

// Its own children are ended too.
TEST(Child, IsEndedWhereItDoesNotAnswer) {
  const double begin = monotonic_s();
  const ChildAnswer answer = shell("echo $$; sleep 60 & sleep 60; wait", 0.3);
  EXPECT_LT(monotonic_s() - begin, 5);
  EXPECT_EQ(answer.obstacle, "sh: no answer in 0.3 s");
  const auto group = static_cast<pid_t>(std::stoi(answer.output));
  for (int i = 0; i < 200 && ::kill(-group, 0) == 0; ++i) usleep(10000);
  EXPECT_NE(::kill(-group, 0), 0);
}

TEST(Child, MuchOutputDoesNotBlockIt) {
  EXPECT_EQ(shell("head -c 300000 /dev/zero | tr '\\0' x").output.size(),
            300000u);
}

TEST(Child, GetsNoDescriptorsOfOurs) {
  const int mine = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(mine, 3);
  const ChildAnswer answer =
      shell("test ! -e /proc/self/fd/" + std::to_string(mine));
  ::close(mine);
  EXPECT_EQ(answer.obstacle, "");
}

TEST(Child, GetsDefaultSignals) {
  auto* const before = ::signal(SIGPIPE, SIG_IGN);
  sigset_t usr1, mask;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, &mask);
  EXPECT_EQ(shell("kill -PIPE $$; true").obstacle, "sh: failed");
  EXPECT_EQ(shell("kill -USR1 $$; true").obstacle, "sh: failed");
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace syncopate
