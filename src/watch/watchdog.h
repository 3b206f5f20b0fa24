// The watchdog of a rank: a thread that listens to its neighbours in the ring,
// detects ranks that died, stopped or hang, and ends the process with code 71
// after one rank has reported it in one line. It never calls MPI, holds no lock
// that a worker takes, and ends by _exit regardless of what workers do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "watch/verdict.h"

namespace syncopate {

// This rank's card, and the socket on which it can be called (kPeerLost).
// `is_one_host`: all ranks share this host, so the loopback is best. The card
// has no address if SYNCOPATE_INTERFACE names no interface that has one.
struct Doorbell {
  RankCard card;
  int listener = -1;
};
Doorbell make_doorbell(bool is_one_host);

// Registers a function that a watchdog calls with the code just before it ends
// its process, because some launchers must be told. The function returns. Call
// once, before the first watchdog.
void tell_before_exit(void (*tell)(int code));

class Watchdog {
 public:
  // `cards` holds those of all ranks, at least two. Starts the thread; the
  // object must live until the process ends. From here on abort() takes 9 s,
  // in which a verdict may end the process.
  Watchdog(int rank, std::vector<RankCard> cards, int listener);

  // Judges hangs from here on; before, only deaths and stops.
  void set_limits(const WatchLimits& limits);
  bool judges_hangs() const { return judges_hangs_; }
  // Sets the file for the last operations of all ranks; without one: stderr.
  void report_to(const std::string& path);

  // Announces that this rank fails alone, with `code`. True: the others know,
  // and wait until it has said why and called left(). False: another rank
  // speaks and ends this process within seconds.
  bool may_leave(int code);
  [[noreturn]] void left(int code);

  // Announces an agreed end: from here on the ring may break. Returns once the
  // neighbours have been told.
  void say_goodbye();

  // Returns whether both neighbours in the ring were ever heard.
  bool hears_neighbours() const { return hears_neighbours_; }

  // For a rank that lost a peer and cannot say why: returns after `limit_s`,
  // unless a verdict ends this process first.
  void await_verdict(double limit_s) const;

 private:
  // What ends this process: a verdict, or a rank that fails alone.
  struct End {
    NoteKind cause;
    int subject, code;
    std::string text;
    double since_s;
  };
  enum class Answer : int { kNone, kSpeak, kSilence };

  [[noreturn]] void thread_main();
  void receive(int from, const Note& note);
  void tell_guardian_loss();
  void obey();
  void look_at_neighbours();
  void look_for_hang(const State& own);
  void answer_roll_call();
  void tell_slow_storage();
  void beat(const State& own);
  void give_verdict(int subject, const std::string& text);
  void begin_end(const Note& note);
  void go_on_ending();
  [[noreturn]] void speak();
  [[noreturn]] void exit_with(int code);
  std::string write_report() const;
  State own_state() const;
  WatchLimits limits() const;

  const int rank_;
  const std::vector<RankCard> cards_;

  // Shared between the threads.
  std::atomic<bool> gives_verdicts_ = true, judges_hangs_ = false;
  std::atomic<double> step_timeout_s_ = 0, io_timeout_s_ = 600;
  std::atomic<const std::string*> report_ = nullptr;
  std::atomic<int> leaving_code_ = -1;
  std::atomic<Answer> answer_ = Answer::kNone;
  std::atomic<bool> has_spoken_ = false;
  std::atomic<bool> is_parting_ = false, has_parted_ = false;
  std::atomic<bool> hears_neighbours_ = false;

  // For the watchdog thread only.
  WatchRing ring_;
  std::optional<End> end_;
  double leaving_since_s_ = -1;
  std::map<int, std::string> operations_;  // by rank, once an end has begun
  double beat_s_ = -1, asked_s_ = -1;      // by monotonic_s()
  std::vector<std::optional<State>> answers_;
  double noted_since_s_ = -1;  // the stage already reported as slow
};

}  // namespace syncopate
