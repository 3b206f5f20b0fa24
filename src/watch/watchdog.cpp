#include "watch/watchdog.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "watch/guardian.h"
#include "watch/operations.h"

namespace syncopate {
namespace {

constexpr double kTickS = 0.1;
// The most by which a turn of the loop advances the watch clock: during a
// longer one this process could hear no rank.
constexpr double kLongestTickS = 0.5;
// A dead rank's last beat is at most this old, plus a tick.
constexpr double kBeatS = 0.05;
constexpr double kSilenceS = 6;
// The limit for a rank that was never heard: it may start slowly or be behind a
// firewall.
constexpr double kFirstWordS = 60;
constexpr double kRollCallS = 1.5;  // for all answers to arrive
constexpr double kNextRollCallS = 5;
constexpr double kRollCallSARank = 2e-3;
constexpr double kCollectS = 1;  // for the others' last operations
constexpr double kAbsentS = 2;   // who has not answered by then is gone
constexpr double kWriteS = 1.5;
// Time for a launcher to forward a line before it sees a code: hydra loses what
// it has not read by then.
constexpr double kForwardS = 0.1;
// A rank speaks once all lower ranks that are left had this long to do so: more
// than they need to collect and write.
constexpr double kTurnToSpeakS = 3;
// If ranks fail at the same moment, the lowest one speaks.
constexpr double kAgreeToLeaveS = 0.3;
constexpr double kLongestWordsS = 5;  // for a rank that fails alone
constexpr double kSlowStorageS = 60;
constexpr double kLongestEndS = 9;   // from a verdict to the last exit
constexpr int kShownOperations = 3;  // if no file can take them
// Lines of all ranks together; all of it crosses every connection.
constexpr size_t kMostOperations = 16384;

void (*tell_launcher)(int) = nullptr;

// Returns whether a thread could be started: where none can, the watchdog's own
// must go on.
bool start_aside(std::function<void()> body) {
  try {
    start_without_signals(std::move(body)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void nap(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// An MPI library may abort a process that finds its peer gone, such as UCX
// while it reads the peer's memory. The thread that does so sleeps for long
// enough for the watchdogs to say who died; then abort() goes on.
void sleep_before_abort(int /*signal*/) {
  timespec left{static_cast<time_t>(kLongestEndS), 0};
  while (::nanosleep(&left, &left) != 0) {
  }
}

// May block the calling thread on the reader of stderr.
void print_line(const std::string& line) {
  // A single write, bypassing stdio, whose lock a worker may hold forever.
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, line.data(), line.size());
}

std::string joined_operations(size_t most) {
  std::string text;
  const std::vector<std::string> lines = operations().lines();
  const size_t first = lines.size() > most ? lines.size() - most : 0;
  for (size_t i = first; i < lines.size(); ++i) text += lines[i] + "\n";
  return text;
}

}  // namespace

void tell_before_exit(void (*tell)(int code)) {
  tell_launcher = tell;
}

Doorbell make_doorbell(bool is_one_host) {
  Doorbell result;
  RankCard& card = result.card;
  // Users know a node by Slurm's name for it.
  const char* node = std::getenv("SLURMD_NODENAME");
  if (node != nullptr)
    std::strncpy(card.host.data(), node, card.host.size() - 1);
  else
    gethostname(card.host.data(), card.host.size() - 1);
  card.pid = getpid();
  result.listener = listen_anywhere(card.port);
  std::vector<Address> addresses = own_addresses();
  if (is_one_host) std::reverse(addresses.begin(), addresses.end());
  for (size_t i = 0; i < std::min(addresses.size(), card.addresses.size()); ++i)
    card.addresses[i] = addresses[i];
  if (getrandom(card.token.data(), sizeof card.token, 0) !=
      static_cast<ssize_t>(sizeof card.token))
    fail_errno(ExitCode::kPeerLost, "watchdog", "random numbers");
  return result;
}

Watchdog::Watchdog(int rank, std::vector<RankCard> cards, int listener)
    : rank_(rank),
      cards_(cards),
      ring_(rank, std::move(cards), listener),
      answers_(cards_.size()) {
  struct sigaction action {};
  action.sa_handler = &sleep_before_abort;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGABRT, &action, nullptr);
  start_without_signals([this] { thread_main(); }).detach();
}

// --- from the worker's thread ------------------------------------------------

void Watchdog::set_limits(const WatchLimits& limits) {
  step_timeout_s_ = limits.step_timeout_s;
  io_timeout_s_ = limits.io_timeout_s;
  judges_hangs_ = limits.judges_hangs && limits.gives_verdicts;
  gives_verdicts_ = limits.gives_verdicts;
}

void Watchdog::report_to(const std::string& path) {
  report_ = new std::string(path);  // read until the process ends
}

bool Watchdog::may_leave(int code) {
  end_in_silence();
  leaving_code_ = code;
  ring_.wake();
  while (answer_ == Answer::kNone) nap(0.01);
  return answer_ == Answer::kSpeak;
}

void Watchdog::left(int code) {
  nap(kForwardS);
  has_spoken_ = true;
  ring_.wake();
  nap(kLongestWordsS);
  _exit(code);
}

void Watchdog::say_goodbye() {
  is_parting_ = true;
  ring_.wake();
  for (int i = 0; i < 100 && !has_parted_; ++i) nap(0.005);
}

void Watchdog::await_verdict(double limit_s) const {
  nap(limit_s);
}

// --- the thread --------------------------------------------------------------

void Watchdog::thread_main() {
  prctl(PR_SET_NAME, "watchdog");
  double before_s = monotonic_s();
  for (;;) {
    ring_.turn(kTickS,
               [this](int from, const Note& note) { receive(from, note); });
    const double now_s = monotonic_s();
    watch_clock().advance(std::min(now_s - before_s, kLongestTickS));
    before_s = now_s;
    if (last_words() >= LastWords::kReporting) {
      tell_guardian_loss();
      continue;
    }
    const auto [left, right] = ring_.neighbours();
    hears_neighbours_ = left.was_up && right.was_up;
    obey();
    const State own = own_state();
    if (end_) {
      go_on_ending();
    } else if (!is_parting_) {
      look_at_neighbours();
      look_for_hang(own);
      tell_slow_storage();
    }
    beat(own);
  }
}

WatchLimits Watchdog::limits() const {
  return {gives_verdicts_, judges_hangs_, step_timeout_s_, io_timeout_s_};
}

State Watchdog::own_state() const {
  const Activity::Now now = activity().now();
  const double clock_s = watch_clock().now_s();
  State state;
  state.stage = now.stage;
  state.step = now.step;
  state.is_waiting = now.is_waiting;
  state.idle_s = clock_s - now.worked_s;
  state.still_s = clock_s - std::max(now.worked_s, now.moved_s);
  state.limit_s =
      limit_s(limits(), now.is_at_storage ? Stage::kBoundary : now.stage,
              activity().median_step_s());
  std::strncpy(state.operation.data(), operations().last().c_str(),
               state.operation.size() - 1);
  return state;
}

void Watchdog::beat(const State& own) {
  const double now_s = monotonic_s();
  if (now_s - beat_s_ < kBeatS) return;
  beat_s_ = now_s;
  ring_.send_to_neighbours({{.origin = rank_, .state = own}});
}

void Watchdog::receive(int, const Note& note) {
  switch (note.kind) {
    case NoteKind::kHello:
    case NoteKind::kBeat:
    case NoteKind::kGoodbye:
      return;  // the ring stores them
    case NoteKind::kLeaving:
    case NoteKind::kVerdict:
      return begin_end(note);
    case NoteKind::kOperations:
      operations_[note.origin] = note.text;
      return;
    case NoteKind::kSpoken:
      exit_with(note.code);
    case NoteKind::kQuestion:
      // One answer serves all ranks that ask at the same moment.
      if (asked_s_ < 0 || monotonic_s() - asked_s_ > kRollCallS)
        answer_roll_call();
      return;
    case NoteKind::kAnswer:
      if (note.origin >= 0 && note.origin < std::ssize(answers_))
        answers_[note.origin] = note.state;
      return;
  }
}

// This process reports that its guardian was killed, and ends. The others end
// silently with it.
void Watchdog::tell_guardian_loss() {
  if (last_words() != LastWords::kReported) return;
  ring_.send_round({{.kind = NoteKind::kSpoken,
                     .code = static_cast<int>(ExitCode::kPeerLost)}});
  ring_.flush(kTickS);
  others_know();
}

// Does what the worker's thread has requested.
void Watchdog::obey() {
  if (is_parting_ && !has_parted_) {
    ring_.send_to_neighbours({{.kind = NoteKind::kGoodbye, .origin = rank_}});
    ring_.flush(kTickS);
    has_parted_ = true;
  }
  if (leaving_code_ < 0) return;
  if (end_) {
    if (answer_ == Answer::kNone) answer_ = Answer::kSilence;
  } else if (leaving_since_s_ < 0) {
    leaving_since_s_ = monotonic_s();
    ring_.send_round({{.kind = NoteKind::kLeaving, .code = leaving_code_}});
  } else if (answer_ == Answer::kNone &&
             monotonic_s() - leaving_since_s_ > kAgreeToLeaveS) {
    answer_ = Answer::kSpeak;
  }
  if (has_spoken_) {
    ring_.send_round({{.kind = NoteKind::kSpoken, .code = leaving_code_}});
    exit_with(leaving_code_);
  }
}

void Watchdog::look_at_neighbours() {
  if (!gives_verdicts_ || leaving_since_s_ >= 0) return;
  const double now_s = watch_clock().now_s();
  for (const WatchRing::Neighbour& neighbour : ring_.neighbours()) {
    if (end_ || neighbour.has_said_goodbye) continue;
    const std::string name =
        name_of_rank(neighbour.rank, cards_[neighbour.rank]);
    const double silent_s = now_s - neighbour.heard_s;
    if (neighbour.was_up && !neighbour.is_up)
      give_verdict(neighbour.rank, name + " died" + place_of(neighbour.state));
    else if (neighbour.is_up && silent_s > kSilenceS)
      give_verdict(neighbour.rank,
                   fmt::format("{} stopped{}: silent for {:.0f} s", name,
                               place_of(neighbour.state), silent_s));
    else if (!neighbour.was_up && silent_s > kFirstWordS)
      give_verdict(
          neighbour.rank,
          fmt::format("{} died at its start, or cannot be reached from {} "
                      "(set SYNCOPATE_INTERFACE to a network interface that "
                      "reaches it, or run.watchdog = no)",
                      name, cards_[rank_].host.data()));
  }
}

// Starts a roll call at this rank; the answers come from all ranks.
void Watchdog::answer_roll_call() {
  asked_s_ = monotonic_s();
  answers_.assign(cards_.size(), std::nullopt);
  const State own = own_state();
  answers_[rank_] = own;
  ring_.send_round({{.kind = NoteKind::kAnswer, .state = own}});
}

void Watchdog::look_for_hang(const State& own) {
  if (!judges_hangs_ || end_ || leaving_since_s_ >= 0) return;
  if ((own.is_waiting ? own.still_s : own.idle_s) <= own.limit_s) return;
  const double now_s = monotonic_s();
  if (asked_s_ < 0 || now_s - asked_s_ > kNextRollCallS) {
    ring_.send_round({{.kind = NoteKind::kQuestion}});
    answer_roll_call();
    return;
  }
  const auto size = static_cast<double>(cards_.size());
  if (now_s - asked_s_ < kRollCallS + kRollCallSARank * size) return;
  const std::optional<Hang> hang = judge_hang(answers_, own.limit_s);
  if (!hang) return;
  const State& state = *answers_[hang->rank];
  const std::string name = name_of_rank(hang->rank, cards_[hang->rank]);
  give_verdict(
      hang->rank,
      hang->do_all_wait
          ? fmt::format("{} hangs{}: all ranks wait, and nothing has moved for "
                        "{:.0f} s",
                        name, place_of(state), own.still_s)
          : fmt::format("{} hangs{}: no progress for {:.0f} s", name,
                        place_of(state), state.idle_s));
}

void Watchdog::tell_slow_storage() {
  if (!judges_hangs_) return;
  const Activity::Now now = activity().now();
  if (now.is_waiting || now.since_s == noted_since_s_) return;
  if (!now.is_at_storage &&
      (now.stage == Stage::kStep || now.stage == Stage::kCollective))
    return;
  const double idle_s = watch_clock().now_s() - now.worked_s;
  if (idle_s < std::min(kSlowStorageS, io_timeout_s_ / 2)) return;
  noted_since_s_ = now.since_s;
  const std::string line = fmt::format(
      "note: rank {}: waiting for storage for {:.0f} s (stage {}; "
      "a hang after {:.0f} s: run.io_timeout_s)\n",
      rank_, idle_s, name_of(now.stage), io_timeout_s_.load());
  // stderr may block on the same storage, and this thread must keep beating.
  start_aside([line] { print_line(line); });
}

// --- ends --------------------------------------------------------------------

void Watchdog::give_verdict(int subject, const std::string& text) {
  const Note note = {{.kind = NoteKind::kVerdict,
                      .origin = rank_,
                      .subject = subject,
                      .code = static_cast<int>(ExitCode::kPeerLost)},
                     text};
  ring_.send_round(note);
  begin_end(note);
}

// The first report counts; of ranks that fail at the same moment, the lowest's.
void Watchdog::begin_end(const Note& note) {
  const bool is_leaving = note.kind == NoteKind::kLeaving;
  if (end_ || answer_ == Answer::kSpeak) return;
  if (is_leaving && leaving_since_s_ >= 0 && note.origin > rank_) return;
  end_in_silence();
  end_ = End{note.kind, is_leaving ? note.origin : note.subject, note.code,
             note.text, monotonic_s()};
  if (is_leaving) return;
  operations_[rank_] = joined_operations(std::clamp(
      kMostOperations / cards_.size(), size_t{4}, OperationLog::kKept));
  ring_.send_round({{.kind = NoteKind::kOperations}, operations_[rank_]});
}

void Watchdog::go_on_ending() {
  const double waited_s = monotonic_s() - end_->since_s;
  if (end_->cause == NoteKind::kLeaving) {
    if (waited_s > kLongestWordsS) exit_with(end_->code);
    return;
  }
  // A stopped or dead rank has nothing to add, and a lost host takes several
  // ranks with it.
  std::ptrdiff_t below = 0, heard = 0;
  for (const auto& [rank, text] : operations_) {
    if (rank == end_->subject) continue;
    ++heard;
    if (rank < rank_) ++below;
  }
  const int all_below = rank_ - (end_->subject < rank_ ? 1 : 0);
  const double collect_s = heard + 1 == std::ssize(cards_) ? 0
                           : below == all_below            ? kCollectS
                                                           : kAbsentS;
  // If many are below, most may have died after their last beat: the turns
  // after the second come faster, and all of them before everybody leaves.
  const double turn_s =
      below == 0 ? 0
                 : kTurnToSpeakS + 0.1 * static_cast<double>(std::min(
                                             below - 1, std::ptrdiff_t{9}));
  if (end_->subject != rank_ && waited_s >= turn_s + collect_s) speak();
  if (waited_s > kLongestEndS) exit_with(end_->code);
}

// Returns the report's path, or why there is none.
std::string Watchdog::write_report() const {
  const std::string* const path = report_;
  std::string text = "error: " + end_->text + "\n";
  for (size_t rank = 0; rank < cards_.size(); ++rank) {
    const auto found = operations_.find(static_cast<int>(rank));
    text += fmt::format(
        "\n{}: last operations (begin, duration)\n{}",
        name_of_rank(static_cast<int>(rank), cards_[rank]),
        found != operations_.end() ? found->second : "(did not answer)\n");
  }
  if (path == nullptr) return {};
  // The storage may be what hangs, so this thread does not wait for it.
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  const bool is_started = start_aside([text, path, is_done] {
    std::FILE* const file = std::fopen(path->c_str(), "w");
    if (file == nullptr) return;
    const bool is_whole =
        std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) == 0 && is_whole) *is_done = true;
  });
  if (!is_started) return {};
  for (const double end_s = monotonic_s() + kWriteS;
       !*is_done && monotonic_s() < end_s;)
    nap(0.01);
  return *is_done ? *path : std::string();
}

void Watchdog::speak() {
  const std::string path = write_report();
  std::string text = "error: " + end_->text;
  text +=
      path.empty() ? "\n" : "; last operations of all ranks: " + path + "\n";
  if (path.empty() && report_ != nullptr)
    text += fmt::format("last operations of rank {}:\n{}", rank_,
                        joined_operations(kShownOperations));
  print_line(text);
  nap(kForwardS);
  ring_.send_round({{.kind = NoteKind::kSpoken, .code = end_->code}});
  exit_with(end_->code);
}

void Watchdog::exit_with(int code) {
  end_in_silence();
  ring_.flush(3 * kTickS);
  if (tell_launcher != nullptr) tell_launcher(code);
  _exit(code);
}

}  // namespace syncopate
