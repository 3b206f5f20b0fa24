// SPDX-License-Identifier: Apache-2.0
#include "support/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace syncopate {
namespace {

constexpr int kTimedOut = 124;  // same as timeout(1)

std::mutex mutex;
std::string running;  // empty between tests
double started_s = 0;

class Listener : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override {
    const std::lock_guard lock(mutex);
    running = std::string(info.test_suite_name()) + "." + info.name();
    started_s = monotonic_s();
  }
  void OnTestEnd(const ::testing::TestInfo&) override {
    const std::lock_guard lock(mutex);
    running.clear();
  }
};

void watch(double limit_s, const std::string& prefix) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::lock_guard lock(mutex);
    if (running.empty() || monotonic_s() - started_s < limit_s) continue;
    std::fprintf(stderr, "%s%s hangs: still running after %.0f s\n",
                 prefix.c_str(), running.c_str(), limit_s);
    std::fflush(nullptr);
    _exit(kTimedOut);
  }
}

}  // namespace

void start_watchdog(double limit_s, const std::string& prefix) {
  // GoogleTest takes ownership.
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  std::thread([=] { watch(limit_s, prefix); }).detach();
}

}  // namespace syncopate
