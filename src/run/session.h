// The process: its place in an MPI job, its log, and how it exits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/agreement.h"
#include "comm/world.h"

namespace syncopate {

struct RunOptions;

// An error that all processes throw identically, so that rank 0 reports it.
class AgreedError : public Error {
 public:
  explicit AgreedError(const Error& error) : Error(error) {}
  explicit AgreedError(const Outcome& failure)
      : Error(failure.code, failure.line) {}
};

class Session {
 public:
  Session(int argc, char** argv);

  bool is_mpi() const { return mpi_ != nullptr; }
  int rank() const { return mpi_ ? mpi_->rank() : 0; }
  int size() const { return mpi_ ? mpi_->size() : 1; }
  int local_size() const { return mpi_ ? mpi_->local_size() : 1; }
  int local_rank() const { return mpi_ ? mpi_->local_rank() : 0; }
  Log& log() { return log_; }
  double started_s() const { return started_s_; }  // of monotonic_s()
  const std::vector<std::string>& argv() const { return argv_; }
  std::string mpi_version() const;
  std::vector<std::string> hosts() const;

  // Returns the number of OpenMP threads per worker: `asked`, or
  // OMP_NUM_THREADS if it is set, or cores_of_rank().
  int threads(int64_t asked) const;
  // Returns this process's share of the cores on which it may run.
  int cores_of_rank() const;

  // Returns the number of workers: the number of MPI ranks, or `asked` (0
  // means 1) in a single process. Throws Error if the two contradict.
  int workers(int64_t asked) const;
  std::unique_ptr<World> make_world(int workers, const NetworkCost& cost);

  // Collective. Runs `setup`; if it throws an Error on any rank, all ranks
  // throw the AgreedError of the lowest such rank.
  void agree_on(const std::function<void()>& setup);
  // Returns rank 0's text on every rank. Collective.
  std::string share(const std::string& text_of_root);

  // Collective, to be called first: from here on, the death of a rank ends the
  // others. Throws Error, the same on all ranks, if they cannot watch each
  // other.
  void start_watchdog() {
    if (mpi_) mpi_->start_watchdog();
  }

  // Starts to watch this rank with the limits of [run]. If the watchdog ends
  // the run, the activities in progress are written to `report`. Does nothing
  // with a single rank.
  void watch(const RunOptions& options, const std::string& report);

  // Returns whether this rank's watchdog has heard both neighbours, now or
  // within `limit_s`. True with a single rank.
  bool hears_neighbours(double limit_s) const;

  // Every process ends in one of these: leave() is an agreed end; fail_alone()
  // is for an error of this rank only.
  [[noreturn]] void leave(ExitCode code);
  [[noreturn]] void fail_alone(const Error& error);

 private:
  double started_s_;
  std::vector<std::string> argv_;
  std::unique_ptr<MpiSession> mpi_;
  Log log_;
};

}  // namespace syncopate
