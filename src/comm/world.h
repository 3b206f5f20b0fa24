// The set of workers of a run and what they run on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/endpoint.h"

namespace syncopate {

class Watchdog;

// A worker's link to the network, in each direction.
struct LinkCost {
  double latency_s = 0;    // of a message between two workers with such links
  double bytes_per_s = 0;  // 0: no limit
};

// Virtual-time cost of a scheme's messages (Traffic::kPayload); inproc only,
// all other messages are free. comm/inproc/network.h says how they share links.
// A probe (Traffic::kProbe) takes as long as a message, but delays no other.
struct NetworkCost {
  double latency_s = 0;  // of all workers' links, where by_worker is empty
  double bytes_per_s = 0;
  std::vector<LinkCost> by_worker = {};
  double message_s = 0;  // time of a link that a message costs beside its bytes
  // Workers 0 to island - 1 are one island, the next as many another; 0: none.
  // Messages within an island pass the `inside` links instead, all others an
  // uplink and a downlink that the island's workers share.
  int island = 0;
  LinkCost inside = {};
  double uplink_bytes_per_s = 0;  // 0: no limit
  double device_bytes_per_s = 0;  // copies of a worker to and from its link
  // Every parameter server has a machine of its own (Endpoint::server_rank)
  // with a link of this rate (0: no limit) in each direction. Its messages have
  // the latency of the worker's link and pass no device.
  bool has_servers_apart = false;
  double server_bytes_per_s = 0;
  // State of a worker's outgoing link when a message begins to leave it: added
  // latency and a divisor of the bandwidth. Empty function: no link is ever
  // degraded.
  struct Link {
    double added_s = 0, slowdown = 1;
  };
  std::function<Link(int rank, Time now)> link = {};
  uint64_t ties_seed = 0;  // order of simultaneous events (comm/scheduler.h)
  // How all-reduces of values that do not exist are simulated: by sending every
  // message or, where links are alike, by computing their times
  // (comm/modelled_sums.h); kRough follows fewer members than kComputed.
  enum class Sums : uint8_t { kSent, kRough, kComputed };
  Sums sums = Sums::kComputed;

  // Whether any message may take time.
  bool takes_time() const {
    const auto costs = [](const LinkCost& of) {
      return of.latency_s > 0 || of.bytes_per_s > 0;
    };
    return costs({latency_s, bytes_per_s}) || costs(inside) ||
           std::ranges::any_of(by_worker, costs) || message_s > 0 ||
           uplink_bytes_per_s > 0 || device_bytes_per_s > 0 ||
           server_bytes_per_s > 0 || link != nullptr;
  }
};

class World {
 public:
  virtual ~World() = default;
  virtual int size() const = 0;  // workers of the run
  virtual bool is_inproc() const = 0;
  virtual std::string description() const = 0;  // "4 workers in one process"

  // Runs `body` once per local worker and returns when all have ended. Rethrows
  // the first exception by rank after telling the other workers, whose blocked
  // calls throw Error(kPeerLost).
  virtual void run(const std::function<void(Endpoint&)>& body) = 0;
};

std::unique_ptr<World> make_inproc_world(int workers, const NetworkCost& cost);

// Whether the times of a sum over workers can be computed: otherwise each of
// its messages is sent.
bool has_alike_links(int workers, const NetworkCost& cost);

// Returns whether the process is part of an MPI job (a launcher's variables are
// set) and MPI should be initialised. Does not call MPI.
bool launched_by_mpi();

// RAII for MPI itself: MPI_Init_thread(MULTIPLE) with MPI_ERRORS_RETURN.
// finish(code) is an agreed end: rank 0 leaves last with the code and the
// others with 0, because launchers merge exit codes poorly. It is guarded
// against a hanging MPI_Finalize. Destruction without finish() calls MPI_Abort.
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
  // Collective. Does nothing with a single rank. Throws Error(kUsage), the same
  // on all ranks, if SYNCOPATE_INTERFACE names no interface of one of them.
  virtual void start_watchdog() = 0;
  virtual Watchdog* watchdog() = 0;  // null until then
  [[noreturn]] virtual void finish(int exit_code) = 0;
  [[noreturn]] virtual void abort(int exit_code) = 0;  // one rank fails alone
};
std::unique_ptr<MpiSession> make_mpi_session(int* argc, char*** argv);

}  // namespace syncopate
