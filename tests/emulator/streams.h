// When the work on an emulated GPU's streams runs: at once, or as late and in
// an order as mixed as CUDA allows it to be.
//
// A seed decides: with an even one work runs when it is given; with an odd one
// it stays in its stream's queue until something needs it. Then streams are
// taken at random among those whose first work can run, until what is needed
// has run; of the others some are held back, so that they run before, between
// or not at all. What no event orders comes in every order with some seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"

namespace syncopate::emulator {

// A GPU like that of make_cuda_device(), whose seed is SYNCOPATE_EMULATOR_SEED
// or 1.
std::unique_ptr<Device> make_emulated_device(int index, uint64_t seed);

// One recording of an event: work that has been run, or has not.
struct Mark {
  std::atomic<bool> is_reached{false};
  double reached_s = 0;

  void reach();
};

// The queues of one device. From any thread; one of them runs what is queued,
// and others wait for it or, in has_reached(), do not: so work must not wait
// for another thread of its process. Work may give and wait for other work,
// but not for what comes behind it: Error(kInternal) "deadlock".
//
// An error ends the call that ran the work, which need not be the one that gave
// it. As on a GPU it ends all that was given to the device before: none of that
// runs, and marks in it count as reached.
class Streams {
 public:
  struct Piece {
    std::function<void()> work;           // or, if empty,
    std::shared_ptr<const Mark> awaited;  // what must have been reached
    std::shared_ptr<Mark> reached = {};   // behind the work
  };
  struct Queue {
    std::deque<Piece> pieces;
    bool is_running = false;
    bool is_held_back = false;  // while anything else can run
  };

  explicit Streams(uint64_t seed);

  std::shared_ptr<Queue> add();
  void remove(const std::shared_ptr<Queue>& queue);

  void give(Queue& queue, Piece piece);

  void finish(const Queue& queue);
  void finish(const Mark& mark);
  void finish_all();
  // Asked again and again it is true in the end.
  bool has_reached(const Mark& mark);

 private:
  void run_until(const std::function<bool()>& is_enough);
  void hold_some_back();
  void run_one();
  void run(Queue& queue);
  void drop_all();
  uint64_t random_below(uint64_t end) { return random_() % end; }

  const bool runs_late_;
  std::recursive_mutex mutex_;  // of all below
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<Queue>> queues_;
};

}  // namespace syncopate::emulator
