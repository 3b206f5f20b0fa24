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

std::atomic<uint64_t>& blocks_in_flight() {
  static std::atomic<uint64_t> value =
      number_of_environment("SYNCOPATE_EMULATOR_BLOCKS", 1);
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

int set_blocks_in_flight(int count) {
  CHECK(count >= 1);
  return static_cast<int>(
      blocks_in_flight().exchange(static_cast<uint64_t>(count)));
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
  is_stopping_ = false;
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
  const size_t limit = std::max<uint64_t>(blocks_in_flight(), 1);
  auto next = order.begin();
  do {
    while (in_flight_.size() < limit && next != order.end() && failure_.empty())
      begin_block(*next++);
    run_until_a_block_ends();
    end_blocks();
  } while (!in_flight_.empty() || (next != order.end() && failure_.empty()));
  launch_ = nullptr;
  block_ = nullptr;
  current_ = -1;
  if (!failure_.empty()) throw Error(ExitCode::kInternal, failure_);
}

void Engine::begin_block(uint64_t at) {
  if (unused_.empty()) unused_.push_back(std::make_unique<Block>());
  in_flight_.push_back(std::move(unused_.back()));
  unused_.pop_back();
  Block& block = *in_flight_.back();
  const dim3 grid = launch_->grid;
  block.index = {static_cast<unsigned>(at % grid.x),
                 static_cast<unsigned>(at / grid.x % grid.y),
                 static_cast<unsigned>(at / grid.x / grid.y)};
  const int num_lanes = static_cast<int>(indices_.size());
  block.lanes.assign(static_cast<size_t>(num_lanes), {});
  block.warps.resize(
      static_cast<size_t>((num_lanes + kWarpSize - 1) / kWarpSize));
  for (Warp& warp : block.warps) {
    warp.exited = warp.at_barrier = 0;
    warp.meetings.clear();
  }
  if (num_lanes % kWarpSize != 0)
    block.warps.back().exited = ~0u << (num_lanes % kWarpSize);
  block.num_exited = block.num_at_barrier = 0;
  block.runnable.resize(static_cast<size_t>(num_lanes));
  std::iota(block.runnable.begin(), block.runnable.end(), 0);
  block.shared.poison(launch_->shared_bytes);
  block.lets_warps_run_ahead = next_random(random_) % 2 == 0;
  // From blocks in step to one that ends before the other begins.
  turns_of_a_block_ = 1u << (5 * (next_random(random_) % 3));
  if (block_ == nullptr || block_ == &block) enter(block);  // used again
}

void Engine::run_until_a_block_ends() {
  const auto has_ended = [](const auto& block) { return block->has_ended(); };
  take_lane();
  // A lane that has been taken runs first: its worker may not take another.
  while (current_ >= 0 || std::ranges::none_of(in_flight_, has_ended)) {
    if (current_ < 0) {
      report_deadlock();
      take_lane();
      continue;
    }
    Worker* worker = block_->lanes[current_].worker;
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
}

void Engine::report_deadlock() {
  enter(*in_flight_.front());
  const auto stuck = std::ranges::find(block_->lanes, false, &Lane::has_exited);
  current_ = static_cast<int>(stuck - block_->lanes.begin());
  note_failure(fmt::format("waits at {} for ever: nothing in its block can run",
                           waiting_place(current_)));
  stop_all();
}

void Engine::end_blocks() {
  for (size_t i = in_flight_.size(); i-- > 0;) {
    if (!in_flight_[i]->has_ended()) continue;
    const std::string damage = in_flight_[i]->shared.damage();
    if (!damage.empty() && failure_.empty())
      failure_ = fmt::format("emulator: kernel {}, block {}: {}",
                             name_of_function(launch_->kernel),
                             text_of(in_flight_[i]->index), damage);
    unused_.push_back(std::move(in_flight_[i]));
    in_flight_.erase(in_flight_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Engine::work(Worker& self) {
  self.frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  while (!is_quitting_) {
    run_lane();
    current_ = -1;
    if (!block_->has_ended()) take_lane();
    if (current_ >= 0 && block_->lanes[current_].worker == nullptr) continue;
    idle_.push_back(&self);
    Fiber::suspend();
  }
}

void Engine::enter(Block& block) {
  block_ = &block;
  blockIdx = block.index;
}

void Engine::take_block() {
  const bool can_stay = block_ != nullptr && !block_->runnable.empty();
  if (can_stay &&
      (in_flight_.size() == 1 || next_random(random_) % turns_of_a_block_ != 0))
    return;
  const size_t first = next_random(random_) % in_flight_.size();
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    Block& block = *in_flight_[(first + i) % in_flight_.size()];
    if (block.runnable.empty()) continue;
    enter(block);
    return;
  }
}

void Engine::take_lane() {
  take_block();
  std::vector<int>& runnable = block_->runnable;
  if (runnable.empty()) {
    current_ = -1;
    return;
  }
  size_t choice = runnable.size();
  if (block_->lets_warps_run_ahead) {
    // Lanes that a warp primitive has let go are at the end.
    const int warp = runnable.back() / kWarpSize;
    choice = 1;
    while (choice < runnable.size() &&
           runnable[runnable.size() - 1 - choice] / kWarpSize == warp)
      ++choice;
  }
  const size_t at =
      runnable.size() - 1 -
      static_cast<size_t>((uint64_t{next_random(random_)} * choice) >> 32);
  current_ = runnable[at];
  runnable[at] = runnable.back();
  runnable.pop_back();
}

void Engine::run_lane() {
  block_->lanes[current_].worker = resumed_;
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
  block_->lanes[lane].has_exited = true;
  warp.exited |= bit_of(lane);
  ++block_->num_exited;
  block_->last_exited = lane;
  if (is_stopping_) return;
  std::string what;
  if (!thrown.empty()) {
    what = "threw: " + thrown;
  } else if (block_->num_at_barrier > 0) {
    what = fmt::format("has exited while {} waits at __syncthreads() ({})",
                       lane_name(block_->first_at_barrier),
                       text_of_site(block_->barrier_site));
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
  const Block* const block = block_;
  const int lane = current_;
  take_lane();
  if (block_ != block || current_ != lane) Fiber::suspend();
  threadIdx = indices_[lane];
  if (is_stopping_) throw Stopped{};
}

void Engine::pass_turn() {
  CHECK_MSG(current_ >= 0, "an atomic operation outside of a kernel");
  if (next_random(random_) % 4 != 0) return;
  make_runnable(current_);
  wait();
}

void Engine::stop(const std::string& what) {
  note_failure(what);
  stop_all();
  throw Stopped{};
}

void Engine::note_failure(const std::string& what) {
  threadIdx = indices_[current_];
  if (!failure_.empty()) return;
  failure_ = fmt::format("emulator: {}: {}", running_lane(), what);
}

// Waiting lanes leave by an exception; those not begun never begin.
void Engine::stop_all() {
  is_stopping_ = true;
  for (const auto& block : in_flight_) stop_lanes(*block);
}

void Engine::stop_lanes(Block& block) {
  block.runnable.clear();
  for (int lane = 0; lane < static_cast<int>(block.lanes.size()); ++lane) {
    Lane& state = block.lanes[lane];
    if (state.has_exited) continue;
    const bool runs =
        &block == block_ && lane == current_ && state.worker == resumed_;
    if (state.worker == nullptr) {
      state.has_exited = true;
      ++block.num_exited;
    } else if (!runs) {
      block.runnable.push_back(lane);
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

std::string Engine::guard_hit(const std::byte* address) const {
  for (const auto& block : in_flight_) {
    const std::string hit = block->shared.guard_hit(address);
    if (!hit.empty()) return hit;
  }
  return stack_hit(address);
}

std::string running_lane() {
  return engine == nullptr ? std::string() : engine->running_lane();
}

std::string guard_hit(const std::byte* address) {
  return engine == nullptr ? std::string() : engine->guard_hit(address);
}

void block_barrier(std::source_location site) {
  Engine::of_this_thread().block_barrier(site);
}

uint64_t meet_in_warp(const WarpCall& call) {
  return Engine::of_this_thread().meet_in_warp(call);
}

void pass_turn() {
  Engine::of_this_thread().pass_turn();
}

std::byte* shared_memory_of_block() {
  return Engine::of_this_thread().shared_memory().data();
}

}  // namespace syncopate::emulator
