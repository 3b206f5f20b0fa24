// Watchdogs of real processes: their messages and exit codes when one process
// is gone.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "watch/guardian.h"
#include "watch/watchdog.h"

namespace syncopate {
namespace {

void nap(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Ranks as child processes, their stderr in a pipe. Bodies begin once all ranks
// have heard their neighbours; a rank ends with 0 after its body.
class Ranks {
 public:
  Ranks(
      int size,
      const std::function<void(Watchdog&, int rank)>& body,
      const std::function<void()>& before = [] {}) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    int ready[2], go[2];
    EXPECT_EQ(pipe(ready) + pipe(go), 0);
    std::vector<Doorbell> bells;
    std::vector<RankCard> cards;
    for (int rank = 0; rank < size; ++rank) {
      bells.push_back(make_doorbell(true));
      cards.push_back(bells.back().card);
    }
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        before();
        for (int other = 0; other < size; ++other)
          if (other != rank) close(bells[other].listener);
        auto* const watchdog = new Watchdog(rank, cards, bells[rank].listener);
        activity().enter(Stage::kStep, 100 + rank);
        while (!watchdog->hears_neighbours()) nap(0.01);
        nap(0.2);  // some beats
        char byte = 0;
        EXPECT_EQ(write(ready[1], &byte, 1), 1);
        EXPECT_EQ(read(go[0], &byte, 1), 1);
        body(*watchdog, rank);
        watchdog->say_goodbye();
        _exit(0);
      }
      pids_.push_back(pid);
    }
    for (const Doorbell& bell : bells) close(bell.listener);
    std::string bytes(static_cast<size_t>(size), '\0');
    for (char& byte : bytes) EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(write(go[1], bytes.data(), bytes.size()), size);
    for (const int end : {ready[0], ready[1], go[0], go[1], ends[1]})
      close(end);
    errors_ = ends[0];
  }
  ~Ranks() { close(errors_); }

  pid_t pid(int rank) const { return pids_[rank]; }

  // Exit code of a rank, 128 + a signal; -1: still there after `limit_s`.
  int code(int rank, double limit_s) const {
    const double end_s = monotonic_s() + limit_s;
    int status = 0;
    while (waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (monotonic_s() > end_s) return -1;
      nap(0.01);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string said() const {
    std::string text;
    char buffer[4096];
    ssize_t count = 0;
    while ((count = read(errors_, buffer, sizeof buffer)) > 0)
      text.append(buffer, static_cast<size_t>(count));
    return text;
  }

 private:
  std::vector<pid_t> pids_;
  int errors_ = -1;
};

void expect_one_line(const std::string& text, const std::string& begin) {
  EXPECT_EQ(text.substr(0, begin.size()), begin);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(Watchdog, NamesTheDead) {
  for (const int victim : {0, 2}) {
    const Ranks ranks(4, [&](Watchdog&, int rank) {
      if (rank == victim) raise(SIGKILL);
      nap(30);
    });
    EXPECT_EQ(ranks.code(victim, 10), 128 + SIGKILL);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.code(rank, 8), 71) << rank;
    }
    const std::string text = ranks.said();
    expect_one_line(text, "error: rank " + std::to_string(victim) + " (host ");
    EXPECT_NE(text.find(" died at step " + std::to_string(100 + victim) +
                        ", stage step, last operation \"none\""),
              std::string::npos)
        << text;
  }
}

TEST(Watchdog, WhereAHostIsLostTheLowestOfTheRestSpeaks) {
  const Ranks ranks(8, [](Watchdog&, int) { nap(30); });
  // As a group, because one that outlives another by a moment may speak.
  const pid_t host = ranks.pid(0);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(setpgid(ranks.pid(rank), host), 0);
  EXPECT_EQ(kill(-host, SIGKILL), 0);
  for (const int rank : {6, 7}) EXPECT_EQ(ranks.code(rank, 12), 71) << rank;
  expect_one_line(ranks.said(), "error: rank ");
}

TEST(Watchdog, NamesTheStoppedAndItsGuardianEndsIt) {
  const Ranks ranks(
      3,
      [](Watchdog&, int rank) {
        tell_guardian(true);
        if (rank == 1) raise(SIGSTOP);
        nap(40);
      },
      [] { go_on_under_guardian(); });
  const double begin_s = monotonic_s();
  EXPECT_EQ(ranks.code(0, 12), 71);
  EXPECT_EQ(ranks.code(2, 1), 71);
  EXPECT_GT(monotonic_s() - begin_s, 5);
  EXPECT_EQ(ranks.code(1, 18), 71);
  expect_one_line(ranks.said(), "error: rank 1 (host ");
}

TEST(Watchdog, WhereAGuardianIsKilledOnlyItsRankSpeaks) {
  const Ranks ranks(
      3, [](Watchdog&, int) { nap(30); },
      [] {
        go_on_under_guardian();
        tell_guardian(true);
      });
  kill(ranks.pid(1), SIGKILL);
  for (const int rank : {0, 2}) EXPECT_EQ(ranks.code(rank, 12), 71) << rank;
  const std::string text = ranks.said();
  expect_one_line(text, "error: rank ? (host ");
  EXPECT_NE(text.find("exits because its guardian"), std::string::npos) << text;
}

TEST(Watchdog, TimeInWhichItDidNotRunIsNoSilence) {
  const Ranks ranks(3, [](Watchdog&, int) { nap(2); });
  nap(1);
  for (int rank = 0; rank < 3; ++rank) kill(ranks.pid(rank), SIGSTOP);
  nap(8);
  for (int rank = 0; rank < 3; ++rank) kill(ranks.pid(rank), SIGCONT);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.code(rank, 10), 0);
  EXPECT_EQ(ranks.said(), "");
}

TEST(Watchdog, OneThatFailsAloneSpeaksForAll) {
  const Ranks ranks(4, [](Watchdog& watchdog, int rank) {
    if (rank == 1 || rank == 3) {  // simultaneously: only one is reported
      if (!watchdog.may_leave(74)) nap(30);
      fprintf(stderr, "error: [rank %d] no space left\n", rank);
      watchdog.left(74);
    }
    nap(30);
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(ranks.code(rank, 8), 74);
  expect_one_line(ranks.said(), "error: [rank ");
}

TEST(Watchdog, NamesTheOneThatHangs) {
  const Ranks ranks(3, [](Watchdog& watchdog, int rank) {
    watchdog.set_limits({.judges_hangs = true, .step_timeout_s = 1});
    if (rank != 1) activity().wait_begins();
    nap(30);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.code(rank, 12), 71);
  const std::string text = ranks.said();
  expect_one_line(text, "error: rank 1 (host ");
  EXPECT_NE(text.find(" hangs at step 101, stage step,"), std::string::npos);
}

TEST(Watchdog, StorageHasItsOwnLimitWithinAStep) {
  const Ranks ranks(3, [](Watchdog& watchdog, int rank) {
    watchdog.set_limits(
        {.judges_hangs = true, .step_timeout_s = 1, .io_timeout_s = 30});
    if (rank != 1) {
      activity().wait_begins();
      nap(4.5);
    } else {
      const AtStorage here;
      nap(4.5);
    }
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.code(rank, 12), 0);
  EXPECT_EQ(ranks.said(), "");
}

TEST(Watchdog, SwitchedOffItNamesNobody) {
  const Ranks ranks(3, [](Watchdog& watchdog, int rank) {
    watchdog.set_limits({.gives_verdicts = false});
    nap(1);  // until all have
    if (rank == 1) raise(SIGKILL);
    nap(2);
  });
  EXPECT_EQ(ranks.code(0, 8), 0);
  EXPECT_EQ(ranks.code(2, 8), 0);
  EXPECT_EQ(ranks.said(), "");
}

TEST(Guardian, EndsAsItsChildDoes) {
  const auto status_of = [](const std::function<void()>& body) {
    const pid_t pid = fork();
    if (pid == 0) {
      go_on_under_guardian();
      body();
      _exit(9);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  };
  EXPECT_EQ(WEXITSTATUS(status_of([] { _exit(75); })), 75);
  EXPECT_EQ(WTERMSIG(status_of([] { raise(SIGKILL); })), SIGKILL);
  EXPECT_EQ(WEXITSTATUS(status_of([] {
              tell_guardian(true);
              raise(SIGKILL);
            })),
            71);
  // This signal is deliberate.
  EXPECT_EQ(WTERMSIG(status_of([] {
              tell_guardian(true);
              kill(getppid(), SIGTERM);
              nap(5);
            })),
            SIGTERM);
  // A signal that only the guardian gets is forwarded.
  EXPECT_EQ(WEXITSTATUS(status_of([] {
              signal(SIGUSR1, [](int) { _exit(42); });
              kill(getppid(), SIGUSR1);
              nap(5);
            })),
            42);
}

}  // namespace
}  // namespace syncopate
