// N workers as fibers of the calling thread.
// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "comm/inproc/inproc_run.h"

namespace syncopate {
namespace {

class InprocWorld : public World {
 public:
  InprocWorld(int workers, const NetworkCost& cost)
      : workers_(workers), cost_(cost) {
    CHECK(workers >= 1);
    CHECK(cost.latency_s >= 0 && cost.bytes_per_s >= 0);
  }

  int size() const override { return workers_; }
  bool is_inproc() const override { return true; }
  std::string description() const override {
    if (workers_ == 1) return "1 worker in one process";
    return fmt::format("{} workers in one process", workers_);
  }

  void run(const std::function<void(Endpoint&)>& body) override {
    inproc::InprocRun shared(workers_, cost_);
    for (int rank = 0; rank < workers_; ++rank) shared.start_worker(rank, body);
    shared.finish();
  }

 private:
  int workers_;
  NetworkCost cost_;
};

}  // namespace

bool has_alike_links(int workers, const NetworkCost& cost) {
  return inproc::Network(workers, cost).alike_links().has_value();
}

std::unique_ptr<World> make_inproc_world(int workers, const NetworkCost& cost) {
  return std::make_unique<InprocWorld>(workers, cost);
}

}  // namespace syncopate
