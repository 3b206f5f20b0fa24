// The ring of watchdogs: each rank is connected to its predecessor and its
// successor. Notes to all travel both ways round what is left of the ring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <set>

#include "watch/connection.h"

namespace syncopate {

// What every rank knows about every other before the ring is up. Gathered by
// MPI, hence of fixed size.
struct RankCard {
  std::array<char, 64> host = {};
  int32_t pid = 0;
  uint16_t port = 0;
  Token token = {};                       // rank 0's identifies the run
  std::array<Address, 8> addresses = {};  // 0: none; the first is set
};

class WatchRing {
 public:
  // Takes ownership of `listener`. Requires at least two ranks.
  WatchRing(int rank, std::vector<RankCard> cards, int listener);
  ~WatchRing();
  WatchRing(const WatchRing&) = delete;
  WatchRing& operator=(const WatchRing&) = delete;

  // Waits up to `limit_s` for input, then moves notes. Calls `receive` (from
  // which neighbour, the note) for each one addressed to this rank. Notes that
  // go round are forwarded, and received once.
  using Receive = std::function<void(int from, const Note& note)>;
  void turn(double limit_s, const Receive& receive);

  void send_to_neighbours(const Note& note);
  void send_round(Note note);  // with this rank as the origin
  // Sends what is pending, for at most `limit_s`.
  void flush(double limit_s);

  // State of a neighbour; times are by watch_clock().
  struct Neighbour {
    int rank = -1;
    bool was_up = false, is_up = false;
    bool has_said_goodbye = false;
    double heard_s = 0;  // last heard; initially when the ring began
    State state;         // as last heard
  };
  // With two ranks, both are the same rank.
  std::array<Neighbour, 2> neighbours() const;

  // Interrupts poll() from another thread.
  void wake() const;

 private:
  enum Side { kLeft, kRight };
  struct Link {
    Neighbour about;
    Connection connection;
    bool is_answered = false;  // a hello came: what is put will be read
    size_t next_address = 0;
    double tried_s = -1;
  };
  struct Caller {  // has not identified itself yet
    Connection connection;
    double since_s;
  };

  void call_right();
  void accept_callers();
  void hear_callers();
  bool meet(Link& link, const Note& hello);
  void hear(Link& link, const Receive& receive);
  void deliver(int side, const Note& note, const Receive& receive);
  Note hello() const;
  bool is_of_this_run(const Note& note, int rank) const;

  int rank_;
  std::vector<RankCard> cards_;
  int listener_, wake_;
  std::array<Link, 2> links_;
  std::vector<Caller> callers_;
  int32_t serial_ = 0;
  std::set<std::pair<int32_t, int32_t>> seen_;  // origin, serial
};

}  // namespace syncopate
