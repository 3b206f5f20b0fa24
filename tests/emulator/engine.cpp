#include "emulator/engine.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "emulator/padding.h"
#include "emulator/region.h"
#include "emulator/sites.h"
#include "emulator/symbol.h"

namespace syncopate::emulator {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
// Room for the report of a fault, which may be that a stack is full.
constexpr size_t kSignalStackBytes = 256 * 1024;

std::atomic<uint64_t>& seed() {
  static std::atomic<uint64_t> value =
      number_of_environment("SYNCOPATE_EMULATOR_SEED", 1);
  return value;
}

// xorshift64*: S. Vigna, "An experimental exploration of Marsaglia's xorshift
// generators, scrambled" (2016). Its state must not be 0.
uint32_t next_random(uint64_t& state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return static_cast<uint32_t>((state * 0x2545F4914F6CDD1Du) >> 32);
}

// The finaliser of splitmix64, so that near seeds give unlike orders.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return (value ^ (value >> 31)) | 1;
}

constinit thread_local Engine* engine = nullptr;

template <typename T>
std::string text_of(const T& index) {
  return fmt::format("({},{},{})", index.x, index.y, index.z);
}

}  // namespace

void set_seed(uint64_t value) {
  seed() = value;
}

Engine& Engine::of_this_thread() {
  static thread_local Engine instance;
  return instance;
}

Engine::Engine() : signal_stack_(kSignalStackBytes) {
  install_fault_reports();
  stack_t current{};
  if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE)) {
    stack_t own{};
    own.ss_sp = signal_stack_.data();
    own.ss_size = signal_stack_.size();
    CHECK(sigaltstack(&own, nullptr) == 0);
  }
  engine = this;
}

Engine::~Engine() {
  is_quitting_ = true;
  for (auto& worker : workers_) worker->fiber->resume();
  workers_.clear();
  stack_t current{};
  if (sigaltstack(nullptr, &current) == 0 &&
      current.ss_sp == signal_stack_.data()) {
    current.ss_flags = SS_DISABLE;
    sigaltstack(&current, nullptr);
  }
  engine = nullptr;
}

void Engine::run(const Launch& launch) {
  CHECK_MSG(launch_ == nullptr, "a kernel launches a kernel");
  launch_ = &launch;
  random_ = mix(seed());
  failure_.clear();
  blockDim = launch.block;
  gridDim = launch.grid;
  const dim3 block = launch.block, grid = launch.grid;
  indices_.clear();
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x) indices_.push_back({x, y, z});

  // CUDA promises no order of blocks: they run in a shuffled one.
  std::vector<uint64_t> order(uint64_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), uint64_t{0});
  for (uint64_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[next_random(random_) % i]);
  for (const uint64_t at : order) {
    if (!failure_.empty()) break;
    blockIdx = {static_cast<unsigned>(at % grid.x),
                static_cast<unsigned>(at / grid.x % grid.y),
                static_cast<unsigned>(at / grid.x / grid.y)};
    run_block();
  }
  launch_ = nullptr;
  current_ = -1;
  if (!failure_.empty()) throw Error(ExitCode::kInternal, failure_);
}

void Engine::run_block() {
  const int num_lanes = static_cast<int>(indices_.size());
  lanes_.assign(static_cast<size_t>(num_lanes), {});
  warps_.resize(static_cast<size_t>((num_lanes + kWarpSize - 1) / kWarpSize));
  for (Warp& warp : warps_) {
    warp.exited = warp.at_barrier = 0;
    warp.meetings.clear();
  }
  if (num_lanes % kWarpSize != 0)
    warps_.back().exited = ~0u << (num_lanes % kWarpSize);
  num_exited_ = num_at_barrier_ = 0;
  is_stopping_ = false;
  runnable_.resize(static_cast<size_t>(num_lanes));
  for (int lane = 0; lane < num_lanes; ++lane) runnable_[lane] = lane;
  shared_.poison(launch_->shared_bytes);
  lets_warps_run_ahead_ = next_random(random_) % 2 == 0;

  take_lane();
  while (num_exited_ < num_lanes) {
    if (current_ < 0) {
      const auto stuck =
          std::find_if(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return !lane.has_exited; });
      current_ = static_cast<int>(stuck - lanes_.begin());
      note_failure(
          fmt::format("waits at {} for ever: nothing in its block "
                      "can run",
                      waiting_place(current_)));
      stop_all();
      take_lane();
      continue;
    }
    Worker* worker = lanes_[current_].worker;
    if (worker == nullptr && idle_.empty()) {
      workers_.push_back(std::make_unique<Worker>());
      worker = workers_.back().get();
      worker->fiber = std::make_unique<Fiber>(
          stacks_, kStackBytes, [this, worker] { work(*worker); });
    } else if (worker == nullptr) {
      worker = idle_.back();
      idle_.pop_back();
    }
    resumed_ = worker;
    worker->fiber->resume();
    resumed_ = nullptr;
  }
  const std::string damage = shared_.damage();
  if (!damage.empty() && failure_.empty())
    failure_ = fmt::format("emulator: kernel {}, block {}: {}",
                           name_of_function(launch_->kernel), text_of(blockIdx),
                           damage);
}

void Engine::work(Worker& self) {
  self.frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  while (!is_quitting_) {
    run_lane();
    take_lane();
    if (current_ >= 0 && lanes_[current_].worker == nullptr) continue;
    idle_.push_back(&self);
    Fiber::suspend();
  }
}

void Engine::take_lane() {
  if (runnable_.empty()) {
    current_ = -1;
    return;
  }
  size_t choice = runnable_.size();
  if (lets_warps_run_ahead_) {
    // Lanes that a warp primitive has let go are at the end.
    const int warp = runnable_.back() / kWarpSize;
    choice = 1;
    while (choice < runnable_.size() &&
           runnable_[runnable_.size() - 1 - choice] / kWarpSize == warp)
      ++choice;
  }
  const size_t at =
      runnable_.size() - 1 -
      static_cast<size_t>((uint64_t{next_random(random_)} * choice) >> 32);
  current_ = runnable_[at];
  runnable_[at] = runnable_.back();
  runnable_.pop_back();
}

void Engine::run_lane() {
  lanes_[current_].worker = resumed_;
  threadIdx = indices_[current_];
  std::string thrown;
  try {
    launch_->thread();
  } catch (const Stopped&) {
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  exit_lane(thrown);
}

void Engine::exit_lane(const std::string& thrown) {
  const int lane = current_;
  Warp& warp = warp_of(lane);
  lanes_[lane].has_exited = true;
  warp.exited |= bit_of(lane);
  ++num_exited_;
  last_exited_ = lane;
  if (is_stopping_) return;
  std::string what;
  if (!thrown.empty()) {
    what = "threw: " + thrown;
  } else if (num_at_barrier_ > 0) {
    what =
        fmt::format("has exited while {} waits at __syncthreads() ({})",
                    lane_name(first_at_barrier_), text_of_site(barrier_site_));
  }
  for (const Meeting& meeting : warp.meetings)
    if (what.empty() && (meeting.call.mask & bit_of(lane)) != 0)
      what = fmt::format("has exited, but is named in {}",
                         text_of_call(meeting.call));
  if (what.empty()) return;
  note_failure(what);
  stop_all();
}

void Engine::wait() {
  const int lane = current_;
  take_lane();
  if (current_ != lane) Fiber::suspend();
  threadIdx = indices_[lane];
  if (is_stopping_) throw Stopped{};
}

void Engine::stop(const std::string& what) {
  note_failure(what);
  stop_all();
  throw Stopped{};
}

void Engine::note_failure(const std::string& what) {
  threadIdx = indices_[current_];
  failure_ = fmt::format("emulator: {}: {}", running_lane(), what);
}

// Waiting lanes leave by an exception; those not begun never begin.
void Engine::stop_all() {
  is_stopping_ = true;
  runnable_.clear();
  for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
    Lane& state = lanes_[lane];
    if (state.has_exited) continue;
    const bool runs = lane == current_ && state.worker == resumed_;
    if (state.worker == nullptr) {
      state.has_exited = true;
      ++num_exited_;
    } else if (!runs) {
      make_runnable(lane);
    }
  }
}

std::string Engine::lane_name(int lane) const {
  return "thread " + text_of(indices_[lane]);
}

std::string Engine::running_lane() const {
  if (launch_ == nullptr || current_ < 0) return {};
  return fmt::format("kernel {}, block {}, thread {}",
                     name_of_function(launch_->kernel), text_of(blockIdx),
                     text_of(threadIdx));
}

std::string Engine::stack_hit(const std::byte* address) const {
  if (resumed_ == nullptr || resumed_->frame == nullptr) return {};
  const ptrdiff_t below = resumed_->frame - address;
  if (below < 0 || below > static_cast<ptrdiff_t>(kStackBytes + kPageBytes))
    return {};
  return fmt::format(
      "its local variables need more than the {} KiB of a "
      "stack",
      kStackBytes / 1024);
}

std::string running_lane() {
  return engine == nullptr ? std::string() : engine->running_lane();
}

std::string guard_hit(const std::byte* address) {
  if (engine == nullptr) return {};
  const std::string shared = engine->shared_memory().guard_hit(address);
  return shared.empty() ? engine->stack_hit(address) : shared;
}

void block_barrier(std::source_location site) {
  Engine::of_this_thread().block_barrier(site);
}

uint64_t meet_in_warp(const WarpCall& call) {
  return Engine::of_this_thread().meet_in_warp(call);
}

std::byte* shared_memory_of_block() {
  return Engine::of_this_thread().shared_memory().data();
}

}  // namespace syncopate::emulator
