#include "run/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace syncopate {
namespace {

volatile sig_atomic_t request = 0;
volatile sig_atomic_t answers = 0;

// Set under nohup. Determined before libraries are initialised, because some
// install a handler for SIGHUP.
bool is_hangup_ignored = false;

void look_at_hangup() {
  struct sigaction now {};
  sigaction(SIGHUP, nullptr, &now);
  is_hangup_ignored = now.sa_handler == SIG_IGN;
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const look_first)() = &look_at_hangup;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

// Launchers and wrappers such as timeout pass on what the terminal sends, too:
// a signal that soon after the first is the same request.
constexpr int64_t kSameRequest_ms = 500;
std::atomic<int64_t> interrupted_at_ms = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

void on_signal(int number) {
  const int errno_before = errno;
  if (number == SIGINT) {
    if (request == static_cast<int>(StopRequest::kInterrupt)) {
      if (now_ms() - interrupted_at_ms > kSameRequest_ms) _exit(130);
      errno = errno_before;
      return;
    }
    interrupted_at_ms = now_ms();
    request = static_cast<int>(StopRequest::kInterrupt);
    constexpr std::string_view kAnswer =
        "\ninterrupted: the run writes a checkpoint and stops after this step "
        "or evaluation; Ctrl-C again, after half a second, ends it now, "
        "without a checkpoint\n";
    if (answers != 0) [[maybe_unused]]
      const ssize_t written =
          ::write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
  } else if (request < static_cast<int>(StopRequest::kSignal)) {
    request = static_cast<int>(StopRequest::kSignal);
  }
  errno = errno_before;
}

void mask_signals(int how) {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : {SIGTERM, SIGUSR1, SIGHUP}) sigaddset(&held, number);
  pthread_sigmask(how, &held, nullptr);
}

}  // namespace

const char* name_of(StopRequest request) {
  switch (request) {
    case StopRequest::kNone:
    case StopRequest::kSave:
      return "none";
    case StopRequest::kTimeLimit:
      return "time limit";
    case StopRequest::kStopFile:
      return "STOP file";
    case StopRequest::kSignal:
    case StopRequest::kInterrupt:
      return "signal";
  }
  CHECK(false);
}

void hold_signals() {
  mask_signals(SIG_BLOCK);
}

void release_signals() {
  mask_signals(SIG_UNBLOCK);
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;  // writes in progress continue
  sigemptyset(&action.sa_mask);
  for (int number : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    if (number == SIGHUP && is_hangup_ignored)
      signal(SIGHUP, SIG_IGN);
    else
      sigaction(number, &action, nullptr);
  }
  release_signals();
}

void answer_interrupts() {
  answers = 1;
}

StopRequest requested_stop() {
  return static_cast<StopRequest>(static_cast<int>(request));
}

}  // namespace syncopate
