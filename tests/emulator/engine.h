// One host thread's runner of kernels: the blocks in flight, their lanes, the
// fibers of these, and who waits for whom.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/fiber.h"
#include "emulator/lanes.h"

namespace syncopate::emulator {

// Pages between two guard pages that hold a block's dynamic shared memory:
// it ends at the second guard, and what lies before it keeps a pattern.
class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void poison(int64_t bytes);  // before a block: 0xFF in all of it
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // "" or what was written beside it.
  std::string damage() const;
  // "" or which side of it `address` is.
  std::string guard_hit(const std::byte* address) const;

 private:
  std::byte* pages_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Of compute capability 8.6, 8.9 and 12.0, which have the least of all that are
// built for.
inline constexpr int64_t kMaxSharedBytes = 99 * 1024;

class Engine {
 public:
  Engine();
  ~Engine();
  static Engine& of_this_thread();

  void run(const Launch& launch);

  void block_barrier(std::source_location site);
  uint64_t meet_in_warp(const WarpCall& call);
  void start_copy(std::byte* to, const std::byte* from, int bytes, bool is_in);
  void commit_copies();
  void wait_for_copies(int num_pending);
  // Lets another lane go on, of this block or another, where the seed says so.
  void pass_turn();
  // Of the current lane's block.
  SharedMemory& shared_memory() { return block_->shared; }
  std::string running_lane() const;
  // "" or which guard of shared memory or of a stack `address` is in.
  std::string guard_hit(const std::byte* address) const;

 private:
  struct Worker {
    std::unique_ptr<Fiber> fiber;
    const std::byte* frame = nullptr;  // an address near its stack's top
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;  // null: zeros
    int bytes, group;
  };
  struct Lane {
    Worker* worker = nullptr;  // whose stack it waits on; null: not started
    bool has_exited = false;
    uint64_t value = 0, result = 0;  // of a warp primitive
    int operand = 0;
    std::vector<Copy> copies;  // not waited for
    int num_groups = 0;        // of copies, closed
  };
  // Lanes that wait for each other in one warp primitive.
  struct Meeting {
    WarpCall call;
    uint32_t arrived = 0;
  };
  struct Warp {
    uint32_t exited = 0;  // or beyond the end of the block
    uint32_t at_barrier = 0;
    std::vector<Meeting> meetings;
  };
  struct Stopped {};  // unwinds the lanes of a launch that failed
  struct Block {
    uint3 index;
    SharedMemory shared;
    // Whether a warp goes on as far as it can before another is taken. With
    // lanes taken at random from all warps, none gets far ahead.
    bool lets_warps_run_ahead = false;
    std::vector<Lane> lanes;
    std::vector<Warp> warps;
    std::vector<int> runnable;
    int num_exited = 0, last_exited = -1;
    int num_at_barrier = 0, first_at_barrier = -1;
    std::source_location barrier_site;

    bool has_ended() const {
      return num_exited == static_cast<int>(lanes.size());
    }
  };

  void begin_block(uint64_t at);
  void run_until_a_block_ends();
  void end_blocks();
  void report_deadlock();
  void enter(Block& block);
  std::string stack_hit(const std::byte* address) const;
  void work(Worker& self);
  void take_block();  // block_ becomes one with a lane that can run, if any
  void take_lane();   // current_ becomes the next lane to run, or -1
  void run_lane();
  void exit_lane(const std::string& thrown);
  void wait();  // the current lane, until it is taken again
  void make_runnable(int lane) { block_->runnable.push_back(lane); }
  void stop_all();
  void stop_lanes(Block& block);
  void stop_unless_possible(const WarpCall& call);
  void finish(const WarpCall& call);
  std::string waiting_place(int lane) const;
  std::string lane_name(int lane) const;  // "thread (3,0,0)"
  Warp& warp_of(int lane) { return block_->warps[lane / kWarpSize]; }
  static uint32_t bit_of(int lane) { return 1u << (lane % kWarpSize); }
  // Ends the launch with Error "emulator: kernel K, block B, WHAT".
  [[noreturn]] void stop(const std::string& what);
  void note_failure(const std::string& what);

  FiberStackPool stacks_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  Worker* resumed_ = nullptr;
  std::vector<std::byte> signal_stack_;

  const Launch* launch_ = nullptr;
  uint64_t random_ = 0;
  std::vector<uint3> indices_;  // of each lane of a block
  std::vector<std::unique_ptr<Block>> in_flight_, unused_;
  // Another block is taken once in so many choices of a lane.
  uint32_t turns_of_a_block_ = 1;
  Block* block_ = nullptr;  // of the current lane; null: outside of kernels
  int current_ = -1;
  std::string failure_;
  bool is_stopping_ = false, is_quitting_ = false;
};

}  // namespace syncopate::emulator
