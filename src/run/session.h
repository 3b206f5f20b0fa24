// The process: whether it is one of several, its log, and how it leaves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/world.h"

namespace syncopate {

struct RunOptions;

// An error that every process has thrown alike, so that rank 0 speaks for all.
class AgreedError : public Error {
 public:
  explicit AgreedError(const Error& error) : Error(error) {}
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

  // OpenMP threads of a worker: `asked`, or this process's share of the cores
  // it may run on.
  int threads(int64_t asked) const;

  // Workers of a run: MPI's ranks, or `asked` (0: 1) in this process. Error
  // where the two contradict each other.
  int workers(int64_t asked) const;
  std::unique_ptr<World> make_world(int workers, const NetworkCost& cost);

  // Runs `setup` and lets all processes agree on how it went: if it threw on
  // any, all throw the AgreedError of the lowest such rank.
  void agree_on(const std::function<void()>& setup);
  // Rank 0's text, at every process. Collective.
  std::string share(const std::string& text_of_root);

  // Collective, before all else: from here on a rank that dies ends the others.
  // Error, the same on all ranks, where they cannot watch each other.
  void start_watchdog() {
    if (mpi_) mpi_->start_watchdog();
  }

  // From here on this rank is watched as [run] says, and what was under way
  // when a run ended so is written to `report`. Nothing where there is one
  // rank.
  void watch(const RunOptions& options, const std::string& report);

  // Whether this rank's watchdog has heard both its neighbours, now or within
  // `limit_s`. True where there is one rank.
  bool hears_neighbours(double limit_s) const;

  // Every process ends here: an agreed end, or one that fails alone.
  [[noreturn]] void leave(ExitCode code);
  [[noreturn]] void fail_alone(const Error& error);

 private:
  double started_s_;
  std::vector<std::string> argv_;
  std::unique_ptr<MpiSession> mpi_;
  Log log_;
};

}  // namespace syncopate
