// The contract of endpoints and collectives under MPI. Also checks that MPI
// ranks and workers in one process get the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "support/mpi_main.h"
#include "unit/comm/contract.h"

namespace syncopate {
namespace {

class MpiCheck : public ::testing::TestWithParam<contract::Check> {};

TEST_P(MpiCheck, Holds) {
  GetParam().hold(*mpi_session().make_world());
}

INSTANTIATE_TEST_SUITE_P(Checks,
                         MpiCheck,
                         ::testing::ValuesIn(contract::kChecks),
                         contract::name_of_check);

INSTANTIATE_TEST_SUITE_P(RowChecks,
                         MpiCheck,
                         ::testing::ValuesIn(contract::kRowChecks),
                         contract::name_of_check);

class MpiContract : public ::testing::Test {
 protected:
  std::unique_ptr<World> world_ = mpi_session().make_world();
};

// Both sizes exceed one piece of 64 MiB; the last piece is short in one case
// and empty in the other.
TEST_F(MpiContract, Large) {
  contract::check_large(*world_, (int64_t{64} << 20) + 5);
}
TEST_F(MpiContract, LargeWholePieces) {
  contract::check_large(*world_, int64_t{128} << 20);
}

NetworkCost hosts_as_here() {
  NetworkCost cost;
  const char* const ranks = std::getenv("SYNCOPATE_RANKS_PER_HOST");
  if (ranks != nullptr) cost.island = std::atoi(ranks);
  return cost;
}

class MpiAllReduce : public ::testing::TestWithParam<CollectiveAlgorithm> {
 protected:
  const CollectiveAlgorithm algorithm_ = GetParam();
  std::unique_ptr<World> world_ = mpi_session().make_world();
};

TEST_P(MpiAllReduce, SumsInF32) {
  contract::check_all_reduce(*world_, algorithm_, Wire::kF32);
}
TEST_P(MpiAllReduce, Groups) {
  contract::check_groups(*world_, algorithm_);
  contract::check_partial_groups(*world_, algorithm_);
}

// All algorithms but native, which lacks bf16 and equal bits on all ranks.
class MpiOwnAllReduce : public MpiAllReduce {};

TEST_P(MpiOwnAllReduce, SumsWithBf16OnTheWire) {
  contract::check_all_reduce(*world_, algorithm_, Wire::kBf16);
  contract::check_bf16_agrees(*world_, algorithm_);
}
TEST_P(MpiOwnAllReduce, BitsEqualThoseOfOneProcess) {
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    for (const int64_t count : {1, 7919, 300007}) {
      const auto by_ranks =
          contract::rounded_sum(*world_, algorithm_, count, wire);
      if (mpi_session().rank() != 0) continue;
      const auto inproc = make_inproc_world(world_->size(), hosts_as_here());
      const auto by_workers =
          contract::rounded_sum(*inproc, algorithm_, count, wire);
      EXPECT_EQ(by_ranks.size(), static_cast<size_t>(count));
      EXPECT_EQ(0, std::memcmp(by_ranks.data(), by_workers.data(), 4 * count));
    }
  }
}

// ctest divides the one host that there is.
TEST_F(MpiContract, HostsAreAsDivided) {
  world_->run([](Endpoint& endpoint) {
    const int per_host = std::max(1, hosts_as_here().island);
    for (int rank = 0; rank < endpoint.size(); ++rank)
      EXPECT_EQ(endpoint.host_of(rank) == endpoint.host_of(0),
                hosts_as_here().island == 0 || rank / per_host == 0)
          << rank;
  });
}

enum class Native : uint8_t { kWith, kWithout };

std::vector<CollectiveAlgorithm> algorithms(Native native) {
  std::vector<CollectiveAlgorithm> all;
  for (const auto& [algorithm, text] : collective_table()) {
    if (native == Native::kWith || algorithm != CollectiveAlgorithm::kNative) {
      all.push_back(algorithm);
    }
  }
  return all;
}

std::string keyword_of(
    const ::testing::TestParamInfo<CollectiveAlgorithm>& instance) {
  return name_of(instance.param);
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         MpiAllReduce,
                         ::testing::ValuesIn(algorithms(Native::kWith)),
                         keyword_of);
INSTANTIATE_TEST_SUITE_P(Ranks,
                         MpiOwnAllReduce,
                         ::testing::ValuesIn(algorithms(Native::kWithout)),
                         keyword_of);

TEST_F(MpiContract, ErrorOfTheWorkerEndsTheRun) {
  // On all ranks, with receives that are never matched and a task that waits.
  // The next run must receive every message, including those that arrived from
  // a faster rank while this one was still giving up, so there are ten rounds.
  for (int round = 0; round < 10; ++round) {
    expect_error(ExitCode::kDiverged, "as it should", [&] {
      world_->run([](Endpoint& endpoint) {
        int value = 0;
        endpoint.start("waiting", [](Endpoint& own) {
          own.recv_any({70, 71});
        });
        const Request never = endpoint.irecv({&value, 4}, 0, 60);
        EXPECT_FALSE(endpoint.test(never));
        fail(ExitCode::kDiverged, "as it should");
      });
    });
    contract::check_order(*world_);
  }
}

TEST_F(MpiContract, EndpointsOfWorkerAndTaskMustNotMix) {
  world_->run([](Endpoint& endpoint) {
    const Task task = endpoint.start("mixed up", [&](Endpoint&) {
      endpoint.isend({}, endpoint.rank(), 5, contract::kPayload);
    });
    EXPECT_THROW(endpoint.join(task), Error);
  });
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return t.tv_sec + 1e-6 * t.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// While the worker computes (here: sleeps), the communication thread leaves it
// nearly all of the core's time if nothing is in flight, and most of it if
// messages are in flight or a service listens.
TEST_F(MpiContract, CommunicationThreadLeavesTheCore) {
  world_->run([](Endpoint& endpoint) {
    const Group all = endpoint.world_group();
    barrier(endpoint, all, tags::kControl);
    const double start = cpu_seconds();
    usleep(300'000);
    const double idle = cpu_seconds() - start;
    int in = 0, out = 0;
    const int to = (endpoint.rank() + 1) % endpoint.size();
    const int from = (endpoint.rank() + endpoint.size() - 1) % endpoint.size();
    const Request receive = endpoint.irecv({&in, 4}, from, 5);
    const double again = cpu_seconds();
    usleep(300'000);
    const double in_flight = cpu_seconds() - again;
    const Request send = endpoint.isend({&out, 4}, to, 5, contract::kPayload);
    endpoint.wait(receive);
    endpoint.wait(send);
    const Task service = endpoint.start("service", [](Endpoint& own) {
      own.recv_any({70, 79});
    });
    const double served = cpu_seconds();
    usleep(300'000);
    const double listening = cpu_seconds() - served;
    endpoint.wait(endpoint.isend({}, endpoint.rank(), 75, contract::kPayload));
    endpoint.join(service);
    // Seconds out of 0.3; measured 0.001, 0.01 and 0.02.
    EXPECT_LT(idle, 0.03);
    EXPECT_LT(in_flight, 0.10);
    EXPECT_LT(listening, 0.10);
    if (endpoint.rank() == 0) {
      std::printf("cpu of 0.3 s: idle %.4f, in flight %.4f, listening %.4f\n",
                  idle, in_flight, listening);
    }
  });
}

}  // namespace
}  // namespace syncopate
