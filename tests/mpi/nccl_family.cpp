// What happens to the members of a world when one of them ends. Part of the
// program of test_nccl.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/device_collectives.h"
#include "support/expect_error.h"
#include "support/mpi_main.h"
#include "support/never_done.h"

namespace syncopate {
namespace {

// Three processes that rank 0 forks. They form a world without MPI on device 0,
// which real NCCL refuses, and the last one misbehaves.
class NcclFamily : public ::testing::Test {
 protected:
  static constexpr int kMembers = 3;
  // Limits of members that are notified of a loss, and of members that time
  // out.
  static constexpr double kLongS = 15, kShortS = 2;
  struct Outcome {
    int code = 0;  // the error's exit code, or 0
    double seconds = 0;
    char line[200] = {};
  };

  // Every member connects and runs `last` or `others` with the collectives and
  // a value on the device. Returns the outcomes of the others; empty on all
  // ranks but 0.
  using Body = std::function<void(DeviceCollectives&, const Buffer&)>;
  std::vector<Outcome> run(const Body& others,
                           const Body& last,
                           double limit_s = kLongS) {
    if (mpi_session().rank() > 0) return {};
    const std::vector<std::byte> id = nccl_unique_id();
    std::vector<pid_t> members;
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    for (int rank = 0; rank < kMembers; ++rank) {
      const pid_t member = fork();
      if (member == 0) {
        be_member(rank, id, rank == kMembers - 1 ? last : others, limit_s,
                  ends[1]);
      }
      members.push_back(member);
    }
    close(ends[1]);
    std::vector<Outcome> outcomes;
    Outcome outcome;
    while (outcomes.size() + 1 < kMembers &&
           read(ends[0], &outcome, sizeof outcome) == sizeof outcome) {
      outcomes.push_back(outcome);
    }
    close(ends[0]);
    kill(members.back(), SIGKILL);
    for (const pid_t member : members) waitpid(member, nullptr, 0);
    EXPECT_EQ(outcomes.size(), size_t{kMembers - 1});
    return outcomes;
  }

  [[noreturn]] static void be_member(int rank,
                                     const std::vector<std::byte>& id,
                                     const Body& body,
                                     double limit_s,
                                     int end) {
    alarm(40);  // ends this process in any case
    Outcome outcome;
    double start_s = monotonic_s();
    try {
      const std::unique_ptr<Device> device = make_cuda_device(0);
      const Buffer value(*device, 4);
      const std::unique_ptr<DeviceCollectives> nccl =
          make_nccl(*device, rank, kMembers, id, {.limit_s = limit_s});
      device->fill_zero(value.data(), 4, nccl->stream());
      start_s = monotonic_s();
      body(*nccl, value);
    } catch (const Error& error) {
      outcome.code = static_cast<int>(error.code());
      std::snprintf(outcome.line, sizeof outcome.line, "%s", error.what());
    } catch (...) {
      // Otherwise Google Test would catch it and run the other tests here too,
      // each of which forks.
      _exit(1);
    }
    // Includes the time of the destructor.
    outcome.seconds = monotonic_s() - start_s;
    if (rank == kMembers - 1) _exit(0);
    _exit(write(end, &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
  }

  static void reduce(DeviceCollectives& nccl, const Buffer& value) {
    nccl.all_reduce_sum({value.as<float>(), 1}, nccl.world());
  }

  // All members report a lost peer within the limit.
  static void expect_lost(const std::vector<Outcome>& outcomes,
                          double limit_s,
                          const std::string& part) {
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kPeerLost))
          << outcome.line;
      EXPECT_LT(outcome.seconds, limit_s) << outcome.line;
      EXPECT_NE(std::string(outcome.line).find(part), std::string::npos)
          << outcome.line;
    }
  }
  static void leave(DeviceCollectives&, const Buffer&) { _exit(0); }
  static void stay(DeviceCollectives&, const Buffer&) { pause(); }
};

TEST_F(NcclFamily, AllEndWell) {
  for (const Outcome& outcome : run(reduce, reduce)) {
    EXPECT_EQ(outcome.code, 0) << outcome.line;
  }
}

TEST_F(NcclFamily, OneExits) {
  expect_lost(run(reduce, leave), kLongS, "remote");
}

TEST_F(NcclFamily, OneIsKilledAmongMany) {
  const auto outcomes = run(
      [](DeviceCollectives& nccl, const Buffer& value) {
        for (;;) reduce(nccl, value);
      },
      [](DeviceCollectives& nccl, const Buffer& value) {
        for (int i = 0; i < 20; ++i) reduce(nccl, value);
        raise(SIGKILL);
      });
  expect_lost(outcomes, kLongS, "remote");
}

TEST_F(NcclFamily, OneExitsBeforeASplit) {
  const Body split = [](DeviceCollectives& nccl, const Buffer&) {
    nccl.split(0, 0);
  };
  expect_lost(run(split, leave), kLongS, "remote");
}

// Members that do not wait for it notice too.
TEST_F(NcclFamily, CheckTellsOfOneThatHasGone) {
  const Body check = [](DeviceCollectives& nccl, const Buffer&) {
    for (;;) nccl.check();
  };
  expect_lost(run(check, leave), kLongS, "remote");
}

// Members that wait for device work which can no longer finish notice too.
TEST_F(NcclFamily, OneExitsDuringAWait) {
  const Body wait = [](DeviceCollectives& nccl, const Buffer&) {
    NeverDone event;
    nccl.wait(event);
  };
  expect_lost(run(wait, leave), kLongS, "remote");
}

// It stays connected but does nothing, so only the time limit ends the wait.
TEST_F(NcclFamily, OneHangs) {
  expect_lost(run(reduce, stay, kShortS), kShortS + 8,
              "no answer from a peer for 2 s");
}

TEST_F(NcclFamily, OneAborts) {
  const Body abort = [](DeviceCollectives& nccl, const Buffer&) {
    nccl.abort();
    pause();
  };
  expect_lost(run(reduce, abort, kShortS), kShortS + 8,
              "no answer from a peer for 2 s");
}

// A member that fails does not wait for the others before it ends.
TEST_F(NcclFamily, OwnErrorDoesNotWait) {
  const Body diverge = [](DeviceCollectives&, const Buffer&) {
    fail(ExitCode::kDiverged, "as it should");
  };
  for (const Outcome& outcome : run(diverge, stay)) {
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kDiverged));
    EXPECT_LT(outcome.seconds, kLongS - 5);
  }
}

// A member that never connects.
TEST_F(NcclFamily, OneNeverConnects) {
  if (mpi_session().rank() > 0) return;
  const std::vector<std::byte> id = nccl_unique_id();
  const std::unique_ptr<Device> device = make_cuda_device(0);
  const double start_s = monotonic_s();
  const Error error =
      error_of([&] { make_nccl(*device, 0, 2, id, {.limit_s = 0.5}); });
  EXPECT_EQ(error.code(), ExitCode::kPeerLost) << error.what();
  EXPECT_LT(monotonic_s() - start_s, 5);
}

}  // namespace
}  // namespace syncopate
