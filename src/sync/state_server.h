// ESync's state server: knows every worker's step time and decides whether
// another local step still fits before the slowest worker is done.
//
//   QUERY(r, k, c):   k_r = k, c_r = c, te_r = now
//                     k == 0: no;  s = the first with the largest c
//                     s has not begun this round: no
//                     rest = te_s + c_s - now
//                     r == s or ready_s or c_r + epsilon > rest: ready
//   RESET(r, t'):     t' another round than t: t = t', all k = 0, none ready
//                     round_r = t', te_r = now
//   epsilon = epsilon_s + epsilon_steps c_r; an excess over rest that is only
//   rounding does not count
//
// Li et al., "ESync: Accelerating Intra-Domain Federated Learning in
// Heterogeneous Data Centers" (IEEE TSC 2020), algorithm of the state server.
// `now` is the server's clock when a message arrives, since hosts' clocks
// differ. A worker that has not finished a step yet has c = 0: in the very
// first round, whoever finishes first is taken for the slowest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "comm/endpoint.h"
#include "tensor/state_visitor.h"

namespace syncopate {

class StateServer {
 public:
  StateServer(int workers, double epsilon_s, double epsilon_steps);

  // No worker has begun a round. Keeps step times.
  void begin();
  // Replaces past times, which mean nothing on the clock of another process.
  void set_clock(Time now);
  bool query(int rank, int64_t local_steps, double step_s, Time now);
  void reset(int rank, int64_t round, Time now);
  // Step times. The state of a round that a boundary leaves open is visited
  // separately, in wall time without its times.
  void visit_state(StateVisitor& visitor);
  void visit_round(StateVisitor& visitor, bool has_virtual_time);

 private:
  static constexpr int64_t kNone = -1;
  struct Record {
    Time finished_at = 0;
    bool is_ready = false;
    int64_t round = kNone;
  };
  int slowest();

  double epsilon_s_, epsilon_steps_;
  int64_t round_ = kNone;
  std::vector<Record> records_;
  std::vector<double> step_s_;  // c by rank
  // The same, the slowest first (ties by rank); empty until it is needed.
  std::set<std::pair<double, int>> by_speed_;
};

}  // namespace syncopate
