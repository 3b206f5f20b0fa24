#include "run/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "fake_slurm.h"
#include "run/request_files.h"

namespace syncopate {
namespace {

TEST(Owner, TextAndBack) {
  for (const RunOwner& owner :
       {RunOwner{"", 0, 4711, "n1"}, RunOwner{"123", 0, 4711, "n1"},
        RunOwner{"123_4", 2, 4711, "n1.cluster"}}) {
    const auto back = RunOwner::from_text(owner.text());
    ASSERT_TRUE(back) << owner.text();
    EXPECT_EQ(back->job, owner.job);
    EXPECT_EQ(back->restarts, owner.restarts);
    EXPECT_EQ(back->pid, owner.pid);
    EXPECT_EQ(back->host, owner.host);
  }
  EXPECT_EQ((RunOwner{"123", 0, 4711, "n1"}).text(),
            "job 123, process 4711 on n1");
  EXPECT_EQ((RunOwner{"", 0, 4711, "n1"}).text(), "process 4711 on n1");
  for (const char* text : {"", "process", "process 0 on n1", "process x on n1",
                           "process 1 on n1 and more", "job 1 process 1 on n1"})
    EXPECT_FALSE(RunOwner::from_text(text)) << text;
}

TEST(Owner, SelfNamesTheJob) {
  FakeSlurm slurm;
  EXPECT_EQ(RunOwner::self().job, "");
  EXPECT_EQ(RunOwner::self().pid, getpid());
  slurm.set("SLURM_JOB_ID", "9");
  slurm.set("SLURM_RESTART_COUNT", "3");
  EXPECT_EQ(RunOwner::self().text().substr(0, 27),
            "job 9 (restart 3), process ");
}

TEST(RunLock, SecondIsRefusedWithinASecond) {
  const ScratchFolder folder;
  const RunLock mine(folder.path());
  EXPECT_FALSE(mine.is_fallback());
  const double begin = monotonic_s();
  try {
    const RunLock second(folder.path());
    ADD_FAILURE() << "two owners";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotCreate);
    EXPECT_EQ(error.what(), folder.path().string() + ": in use by " +
                                RunOwner::self().text());
  }
  EXPECT_LT(monotonic_s() - begin, 1);
}

TEST(RunLock, AQuestionIsNotAnOwner) {
  const ScratchFolder folder;
  EXPECT_EQ(owner_of(folder.path()), "");
  {
    const RunLock mine(folder.path());
    EXPECT_EQ(owner_of(folder.path()), RunOwner::self().text());
  }
  EXPECT_EQ(owner_of(folder.path()), "");
}

TEST(RunLock, KilledOwnersIsFreeAtOnce) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunLock mine(folder.path());
    std::ofstream(folder.path() / "held").close();
    pause();
  }
  while (!fs::exists(folder.path() / "held")) usleep(1000);
  EXPECT_THROW(RunLock(folder.path()), Error);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunLock(folder.path()));
}

// Until it is seen, or 5 s.
StopRequest wait_for(const RequestWatch& watch, StopRequest expected) {
  const double until_s = monotonic_s() + 5;
  while (watch.seen() != expected && monotonic_s() < until_s) usleep(10000);
  return watch.seen();
}

void touch(const fs::path& path) {
  std::ofstream(path).close();
}

TEST(RequestWatch, SeesWhatIsThereAndWhatComes) {
  const ScratchFolder folder;
  touch(folder.path() / "SAVE");
  RequestWatch watch(folder.path(), nullptr);
  EXPECT_EQ(watch.seen(), StopRequest::kSave);
  touch(folder.path() / "STOP");
  EXPECT_EQ(wait_for(watch, StopRequest::kStopFile), StopRequest::kStopFile);
  fs::remove(folder.path() / "STOP");
  EXPECT_EQ(wait_for(watch, StopRequest::kSave), StopRequest::kSave);
}

TEST(RequestWatch, RemovesWhatWasGrantedAndNoMore) {
  const ScratchFolder folder;
  touch(folder.path() / "SAVE");
  touch(folder.path() / "STOP");
  RequestWatch watch(folder.path(), nullptr);
  ASSERT_EQ(watch.seen(), StopRequest::kStopFile);
  EXPECT_EQ(watch.remove(StopRequest::kSignal).size(), 1u);
  EXPECT_FALSE(fs::exists(folder.path() / "SAVE"));
  EXPECT_TRUE(fs::exists(folder.path() / "STOP"));
  EXPECT_EQ(wait_for(watch, StopRequest::kStopFile), StopRequest::kStopFile);
  const auto removals = watch.remove(StopRequest::kStopFile);
  ASSERT_EQ(removals.size(), 1u);
  EXPECT_STREQ(removals[0].file, "STOP");
  EXPECT_TRUE(removals[0].is_gone);
  EXPECT_FALSE(fs::exists(folder.path() / "STOP"));
  EXPECT_EQ(watch.seen(), StopRequest::kNone);
}

// A folder with something in it is what even root cannot remove.
TEST(RequestWatch, WhatCannotBeRemovedIsGrantedOnce) {
  const ScratchFolder folder;
  fs::create_directories(folder.path() / "SAVE" / "full");
  RequestWatch watch(folder.path(), nullptr);
  ASSERT_EQ(watch.seen(), StopRequest::kSave);
  const auto removals = watch.remove(StopRequest::kSave);
  ASSERT_EQ(removals.size(), 1u);
  EXPECT_FALSE(removals[0].is_gone);
  usleep(1200000);
  EXPECT_EQ(watch.seen(), StopRequest::kNone);
  touch(folder.path() / "SAVE" / "again");
  EXPECT_EQ(wait_for(watch, StopRequest::kSave), StopRequest::kSave);
}

TEST(RequestWatch, NeverWaitsForALookThatStalls) {
  const ScratchFolder folder;
  const auto beats = std::make_shared<std::atomic<int>>(0);
  const double begin = monotonic_s();
  {
    const RequestWatch watch(folder.path(), [beats] {
      ++*beats;
      sleep(10);  // like storage that hangs
      return true;
    });
    while (*beats == 0 && monotonic_s() - begin < 5) usleep(10000);
    EXPECT_EQ(*beats, 1);
    EXPECT_EQ(watch.seen(), StopRequest::kNone);
  }
  EXPECT_LT(monotonic_s() - begin, 8);
}

}  // namespace
}  // namespace syncopate
