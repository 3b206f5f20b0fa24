// The watchdog of a rank: a thread beside MPI that hears from its neighbours
// in the ring, notices who died, stopped or hangs, and ends the process with
// code 71 after one rank has said so in one line. It never calls MPI, holds no
// lock that a worker takes, and ends by _exit wherever the workers are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "watch/verdict.h"

namespace syncopate {

// This rank's card, and the socket it will be called at (Error(kPeerLost)).
// `is_one_host`: all ranks share this one, so that the loopback is best.
// Without an address where SYNCOPATE_INTERFACE names no interface that has one.
struct Doorbell {
  RankCard card;
  int listener = -1;
};
Doorbell make_doorbell(bool is_one_host);

// What a watchdog calls, with the code, just before it ends its process: some
// launchers must be told. Returns; once, before the first watchdog.
void tell_before_exit(void (*tell)(int code));

class Watchdog {
 public:
  // `cards` of all ranks, two at least. Starts the thread; the object is to
  // live until the process ends.
  Watchdog(int rank, std::vector<RankCard> cards, int listener);

  // From here on; before: deaths and stops only.
  void set_limits(const WatchLimits& limits);
  bool judges_hangs() const { return judges_hangs_; }
  // Where the last operations of all ranks are written; nowhere: stderr.
  void report_to(const std::string& path);

  // This rank fails alone, with `code`. True: the others know, and wait until
  // it has said why and called left(). False: another one speaks and ends this
  // process, within seconds.
  bool may_leave(int code);
  [[noreturn]] void left(int code);

  // An agreed end: the ring may break from here on. Returns once the
  // neighbours have been told.
  void say_goodbye();

  // Whether both neighbours in the ring were ever heard.
  bool hears_neighbours() const { return hears_neighbours_; }

  // For who lost a peer, and cannot say why: returns after `limit_s` only if
  // no verdict has ended this process.
  void await_verdict(double limit_s) const;

 private:
  // What ends this process: the words of a verdict, or a rank that fails alone.
  struct End {
    NoteKind cause = NoteKind::kVerdict;
    int subject = -1, code = 0;
    std::string text;
    double since_s = 0;
  };
  enum class Answer : int { kNone, kSpeak, kSilence };

  [[noreturn]] void thread_main();
  void receive(int from, const Note& note);
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

  // Between the threads.
  std::atomic<bool> gives_verdicts_ = true, judges_hangs_ = false;
  std::atomic<double> step_timeout_s_ = 0, io_timeout_s_ = 600;
  std::atomic<const std::string*> report_ = nullptr;
  std::atomic<int> leaving_code_ = -1;
  std::atomic<Answer> answer_ = Answer::kNone;
  std::atomic<bool> has_spoken_ = false;
  std::atomic<bool> is_parting_ = false, has_parted_ = false;
  std::atomic<bool> hears_neighbours_ = false;

  // Of the thread.
  Ring ring_;
  std::unique_ptr<End> end_;
  double leaving_since_s_ = -1;
  std::map<int, std::string> operations_;  // by rank, once an end has begun
  double beat_s_ = -1, asked_s_ = -1;      // of monotonic_s()
  std::vector<std::optional<State>> answers_;
  double noted_since_s_ = -1;  // the stage whose slowness was told
};

}  // namespace syncopate
