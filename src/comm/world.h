// The set of workers of a run and what they run on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/endpoint.h"

namespace syncopate {

class Watchdog;

// What a message of the scheme (Traffic::kPayload) costs in virtual time
// (inproc; all others are free): delivered `latency_s +
// bytes / bytes_per_s` after it was sent; messages out of one worker leave one
// after the other. 0 bytes_per_s means no limit. A probe (Traffic::kProbe)
// leaves behind them and is as late, but takes no time of the link.
struct NetworkCost {
  double latency_s = 0;
  double bytes_per_s = 0;
  // What a worker's link is like when a message begins to leave it: latency is
  // added, bandwidth divided. Empty: all links are always as above.
  struct Link {
    double added_s = 0, slowdown = 1;
  };
  std::function<Link(int rank, Time now)> link = {};
};

class World {
 public:
  virtual ~World() = default;
  virtual int size() const = 0;  // workers of the run
  virtual bool is_inproc() const = 0;
  virtual std::string description() const = 0;  // "4 workers in one process"

  // Runs `body` once for each local worker and returns when all have ended.
  // The first exception by rank is rethrown after the others were told:
  // blocked calls of theirs throw Error(kPeerLost).
  virtual void run(const std::function<void(Endpoint&)>& body) = 0;
};

std::unique_ptr<World> make_inproc_world(int workers, const NetworkCost& cost);

// The process is part of an MPI job (a launcher's variables are set), so that
// MPI should be initialised. Does not touch MPI.
bool launched_by_mpi();

// RAII of MPI itself: MPI_Init_thread(MULTIPLE) with MPI_ERRORS_RETURN.
// finish(code): an agreed end. Rank 0 leaves last with the code, the others
// with 0 ("rank 0 goes last" because launchers merge codes badly); guarded
// against a hanging MPI_Finalize. Destroyed without finish(): MPI_Abort.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this node
  virtual int local_size() const = 0;
  virtual std::string library_version() const = 0;
  virtual std::vector<std::string> hosts() const = 0;  // by rank
  virtual std::unique_ptr<World> make_world() = 0;
  // Collective. Nothing where there is one rank. Error(kUsage), the same on all
  // ranks, where SYNCOPATE_INTERFACE names no interface of one of them.
  virtual void start_watchdog() = 0;
  virtual Watchdog* watchdog() = 0;  // null until then
  [[noreturn]] virtual void finish(int exit_code) = 0;
  [[noreturn]] virtual void abort(int exit_code) = 0;  // one rank alone fails
};
std::unique_ptr<MpiSession> make_mpi_session(int* argc, char*** argv);

}  // namespace syncopate
