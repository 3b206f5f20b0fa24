// main() of the tests in mpi/, run by mpiexec: rank 0 prints everything, the
// others only failures, and all ranks exit with the worst result.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "support/watchdog.h"

namespace syncopate {
namespace {

constexpr double kHangLimitS = 60;

MpiSession* session = nullptr;

// For ranks other than 0: prints failures, each with its rank.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  // gtest holds its lock here, so its functions must not be called.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s: %s:%d: %s\n", session->rank(),
                 test_.c_str(), result.file_name() ? result.file_name() : "",
                 result.line_number(), result.message());
  }
  std::string test_;
};

int worst_of_all(int own_code) {
  double worst = own_code;
  session->make_world()->run([&](Endpoint& endpoint) {
    agree(endpoint, endpoint.world_group(), std::span(&worst, 1), Combine::kMax,
          tags::kControl);
  });
  return static_cast<int>(worst);
}

}  // namespace

MpiSession& mpi_session() {
  return *session;
}

}  // namespace syncopate

int main(int argc, char** argv) {
  using namespace syncopate;  // NOLINT: a main
  const auto owned = make_mpi_session(&argc, &argv);
  owned->start_watchdog();
  syncopate::session = owned.get();
  ::testing::InitGoogleTest(&argc, argv);
  if (owned->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  start_watchdog(kHangLimitS, "[rank " + std::to_string(owned->rank()) + "] ");
  const int code = worst_of_all(RUN_ALL_TESTS());
  owned->finish(code);
}
