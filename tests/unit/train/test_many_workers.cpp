// What a worker costs beside its model and its scheme's messages, in one
// process: control traffic, memory and time, by number of workers.
//
// MANY_WORKERS=16,256,1024,4096 prints a table of all schemes instead.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "run/session.h"
#include "support/scratch_folder.h"
#include "train/worker_step.h"

namespace syncopate {
namespace {

constexpr int64_t kSteps = 4;

// The smallest network, with 8 parameters. Workers have no thread for batches.
constexpr const char* kInput = R"(
[run]
steps = 4
threads = 1
device = cpu
[model]
family = logistic
[data]
kind = synthetic_images
test_samples = 4
classes = 2
height = 1
width = 1
batch = 1
prefetch = 0
[eval]
batch = 4
[compute]
law = lognormal
spread = 0.05
)";

// In bytes: VmRSS, VmHWM.
int64_t memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":"))
      return 1024 * std::atoll(line.c_str() + name.size() + 1);
  ADD_FAILURE() << name;
  return 0;
}

void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

// Resident memory, and the heap's part of it.
struct Memory {
  double resident = 0, heap = 0;
};

struct Costs {                     // per worker
  double control_bytes = 0;        // sent per step
  int64_t most_control_bytes = 0;  // by any worker
  double step_us = 0;              // CPU time
  // Bytes with its strand and mailbox; with its replica and scheme as well;
  // with its batches as well; after training; the peak while it trains.
  Memory strand, scheme, feed, trained;
  double peak = 0;
};

class ManyWorkers : public testing::Test {
 protected:
  Costs costs_of(const std::string& scheme,
                 int workers,
                 const std::vector<std::string>& more_keys = {}) {
    const std::string input = folder_ / "in.ini";
    std::ofstream(input) << kInput;
    std::vector<std::string> keys = keys_of(scheme, workers);
    keys.insert(keys.end(), more_keys.begin(), more_keys.end());
    engine_ = build_engine(session_, input, keys);
    forget_peak();
    before_ = memory_now();
    costs_ = {};
    sent_.assign(static_cast<size_t>(workers), 0);
    make_inproc_world(workers, {})->run([this](Endpoint& endpoint) {
      train(endpoint);
    });
    for (const int64_t bytes : sent_) {
      costs_.control_bytes +=
          static_cast<double>(bytes) / static_cast<double>(kSteps * workers);
      costs_.most_control_bytes =
          std::max(costs_.most_control_bytes, bytes / kSteps);
    }
    costs_.peak =
        (static_cast<double>(memory("VmHWM")) - before_.resident) / workers;
    engine_.reset();
    return costs_;
  }

 private:
  static std::vector<std::string> keys_of(const std::string& scheme,
                                          int workers) {
    const SchemeInfo& info = scheme_info(scheme);
    std::vector<std::string> keys = {
        "--sync.scheme=" + scheme, fmt::format("--run.workers={}", workers),
        fmt::format("--data.samples={}", 8 * workers)};
    if (info.reduces_ranges) keys.push_back("--sync.collective=butterfly");
    if (info.uses_compressor)
      keys.push_back(scheme == "dgc" ? "--compress.kind=top_k"
                                     : "--compress.kind=sign");
    if (scheme == "asp" || scheme == "ssp" || info.is_composite)
      keys.push_back("--asp.servers=4");
    if (scheme == "ssp") keys.push_back("--ssp.bound=1");
    if (info.is_composite)
      keys.insert(keys.end(), {"--sync_switch.order=10",
                               "--sync_switch.fractions=0.5,0.5"});
    if (info.is_composite) keys.push_back("--sync.collective=butterfly");
    return keys;
  }

  static Memory memory_now() {
    return {static_cast<double>(memory("VmRSS")),
            static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd)};
  }

  // Notes the memory of all workers once they have come here.
  void note(Endpoint& endpoint, Memory& bytes) {
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    if (endpoint.rank() == 0) {
      bytes = memory_now();
      bytes.resident = (bytes.resident - before_.resident) / endpoint.size();
      bytes.heap = (bytes.heap - before_.heap) / endpoint.size();
    }
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  }

  void train(Endpoint& endpoint) {
    note(endpoint, costs_.strand);
    WorkerStep step(*engine_, endpoint, nullptr, "");
    Replica& replica = step.replica();
    engine_->model->initialise(replica.parameters.write().span(),
                               replica.buffers.span(), 1);
    step.scheme().enter();
    note(endpoint, costs_.scheme);
    step.open_feed();
    note(endpoint, costs_.feed);
    const auto control = [&] {
      return endpoint.traffic().bytes_sent[static_cast<int>(Traffic::kControl)];
    };
    step.meet_at(0);
    const std::clock_t begin = std::clock();
    const int64_t before = control();
    step.begin({0, kSteps * endpoint.size(), 0});
    for (;;) {
      const StepPlan plan = step.scheme().next(step.step_request(0));
      if (plan.stop) break;
      step.take(plan);
    }
    step.end();
    sent_[static_cast<size_t>(endpoint.rank())] = control() - before;
    note(endpoint, costs_.trained);
    if (endpoint.rank() == 0)
      costs_.step_us = 1e6 * static_cast<double>(std::clock() - begin) /
                       CLOCKS_PER_SEC /
                       static_cast<double>(kSteps * endpoint.size());
  }

  ScratchFolder folder_;
  char name_[8] = "test";
  char* argv_[1] = {name_};
  Session session_{1, argv_};
  std::unique_ptr<Engine> engine_;
  Memory before_;
  Costs costs_;
  std::vector<int64_t> sent_;
};

// Sends a message to everyone, so that N workers send N * N.
bool sends_to_all(const std::string& scheme) {
  return scheme == "dgc" || scheme == "ef_sign_sgd";
}

// One scheme with a tree, one with a server and one with neighbours stand for
// the others among the most workers.
int crowd_of(const std::string& scheme) {
  if (scheme == "bsp" || scheme == "asp" || scheme == "choco") return 4096;
  return sends_to_all(scheme) ? 128 : 1024;
}

class EverySchemeOfMany : public ManyWorkers,
                          public testing::WithParamInterface<std::string> {};

// A step's control messages go up and down a tree, to neighbours, or to one
// server; tables of all workers exist once per process.
TEST_P(EverySchemeOfMany, CostsAWorkerAsMuchAsOneOfFew) {
  const std::string scheme = GetParam();
  const Costs few = costs_of(scheme, 16);
  const Costs many = costs_of(scheme, crowd_of(scheme));
  EXPECT_GT(few.control_bytes, 0);
  // N - 1 of N workers send up the tree.
  EXPECT_NEAR(many.control_bytes / few.control_bytes, 16.0 / 15, 1.0 / 15);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(many.peak, sends_to_all(scheme) ? 128 << 10 : 64 << 10);
#endif
}

INSTANTIATE_TEST_SUITE_P(ManyWorkers,
                         EverySchemeOfMany,
                         testing::ValuesIn([] {
                           std::vector<std::string> schemes;
                           for (const SchemeInfo& info : scheme_table())
                             schemes.push_back(info.keyword);
                           return schemes;
                         }()),
                         [](const auto& info) { return info.param; });

// Step times are judged by one worker.
TEST_F(ManyWorkers, PoliciesAgainstStragglersCostAWorkerAsMuchAsOneOfFew) {
  for (const char* policy : {"greedy", "elastic"}) {
    const std::vector<std::string> keys = {"--sync_switch.policy=" +
                                           std::string(policy)};
    const Costs few = costs_of("sync_switch", 16, keys);
    const Costs many = costs_of("sync_switch", 1024, keys);
    EXPECT_NEAR(many.control_bytes / few.control_bytes, 16.0 / 15, 1.0 / 15)
        << policy;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(many.peak, 64 << 10) << policy;
#endif
  }
}

TEST_F(ManyWorkers, Table) {
  const char* asked = std::getenv("MANY_WORKERS");
  const char* only = std::getenv("MANY_WORKERS_SCHEMES");
  if (asked == nullptr) GTEST_SKIP() << "MANY_WORKERS is not set";
  std::printf("%-13s %6s %9s %9s %9s %s\n", "scheme", "N", "us/step",
              "control B", "most",
              "KiB of a worker (heap): strand, + scheme, + batches, trained; "
              "peak");
  for (const SchemeInfo& info : scheme_table()) {
    if (only != nullptr &&
        fmt::format(",{},", only).find(fmt::format(",{},", info.keyword)) ==
            std::string::npos)
      continue;
    for (const std::string& number : split(asked, ',')) {
      const int workers = std::atoi(number.c_str());
      if (workers > 256 && sends_to_all(info.keyword)) continue;
      const Costs costs = costs_of(info.keyword, workers);
      std::printf("%-13s %6d %9.1f %9.1f %9lld", info.keyword.c_str(), workers,
                  costs.step_us, costs.control_bytes,
                  static_cast<long long>(costs.most_control_bytes));
      for (const Memory& part :
           {costs.strand, costs.scheme, costs.feed, costs.trained})
        std::printf("  %6.1f (%5.1f)", part.resident / 1024, part.heap / 1024);
      std::printf("  %6.1f\n", costs.peak / 1024);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace syncopate
