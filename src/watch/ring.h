// The ring of watchdogs: each rank has a connection to the one before and the
// one after it. Notes to all go both ways round what is left of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>

#include "watch/connection.h"

namespace syncopate {

// What every rank knows of every other before the ring is up; gathered by MPI,
// so of fixed size.
struct RankCard {
  std::array<char, 64> host = {};
  int32_t pid = 0;
  uint16_t port = 0;
  Token token = {};                       // rank 0's is the run's
  std::array<Address, 8> addresses = {};  // 0: none; the first is one
};

class Ring {
 public:
  // `listener` is owned from here on. At least two ranks.
  Ring(int rank, std::vector<RankCard> cards, int listener);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Waits up to `limit_s` for something to come, then moves notes; each that
  // is for this rank goes to `receive` (from which neighbour, what). Those that
  // go round are passed on and received once.
  using Receive = std::function<void(int from, const Note& note)>;
  void turn(double limit_s, const Receive& receive);

  void send_to_neighbours(const Note& note);
  void send_round(Note note);  // with this rank as the origin
  // Sends what is left, for at most so long.
  void flush(double limit_s);

  // How it stands with a neighbour; times are of watch_clock().
  struct Neighbour {
    int rank = -1;
    bool was_up = false, is_up = false;
    bool has_said_goodbye = false;
    double heard_s = 0;  // or this ring's begin
    State state;         // as last heard
  };
  // Of two ranks both are the same one.
  std::array<Neighbour, 2> neighbours() const;

  // Ends poll() from another thread.
  void wake() const;

 private:
  enum Side { kLeft, kRight };
  struct Link {
    Neighbour about;
    Connection connection;
    bool is_answered = false;  // a hello came: what is put is heard
    size_t next_address = 0;
    double tried_s = -1;
  };
  struct Caller {  // has not yet said who it is
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
