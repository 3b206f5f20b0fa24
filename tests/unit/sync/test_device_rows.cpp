// The exchange of tables' rows is that in host memory: values to the bit,
// clocks, waiting times and traffic. Runs on the CPU and on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "sync/device_rows.h"

#include <gtest/gtest.h>

#include "comm/world.h"
#include "support/test_device.h"
#include "unit/sync/row_sums.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<Outcome> sums(Device& device, int workers, Wire wire, Marks which) {
  std::vector<Outcome> outcomes(workers);
  make_inproc_world(workers, {1e-3, 1e6})->run([&](Endpoint& endpoint) {
    outcomes[endpoint.rank()] =
        RowSums(device, endpoint, Terms::kAny).run(wire, which);
  });
  return outcomes;
}

TEST(DeviceRows, AreThoseInHostMemory) {
  const std::unique_ptr<Device> cpu = make_cpu_device();
  for (const int workers : {1, 2, 3, 5})
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      for (const Marks which : {Marks::kMarked, Marks::kUnmarked}) {
        SCOPED_TRACE(std::to_string(workers) + " workers, " + name_of(wire) +
                     (which == Marks::kMarked ? ", marked" : ""));
        const auto tested = sums(test_device(), workers, wire, which);
        const auto in_host_memory = sums(*cpu, workers, wire, which);
        for (int rank = 0; rank < workers; ++rank) {
          expect_same(tested[rank], in_host_memory[rank]);
          for (int round = 0; round < kRounds; ++round)
            EXPECT_EQ(tested[rank].values[round], tested[0].values[round]);
        }
      }
}

}  // namespace
}  // namespace syncopate
